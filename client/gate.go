package client

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrBufferFull says that a publish found no room in the buffer for as long as
// it could wait, or would not fit into an empty one. Nothing was sent.
var ErrBufferFull = errors.New("client: the buffer of publishes under way is full")

// gate holds publishes back: until there is room for their bytes, and until all
// earlier ones on the same channels have been settled. It is what keeps the
// order of a channel. Both happen in the order of the calls.
type gate struct {
	most int

	// mu guards the following.
	mu      sync.Mutex
	free    int
	waiting []*pass            // for bytes, in the order of the calls
	lines   map[string][]*pass // by channel; who stands first has its turn there
}

// pass is one publish on its way through the gate.
type pass struct {
	bytes    int
	channels []string      // each once
	behind   int           // lines in which it does not stand first; guarded by gate.mu
	admitted bool          // has its bytes and stands in its lines; guarded by gate.mu
	turn     chan struct{} // closed when admitted and first in all
}

func newGate(most int) *gate {
	return &gate{most: most, free: most, lines: map[string][]*pass{}}
}

// enter waits for room and turn. The caller leaves when its publish is settled.
func (g *gate) enter(ctx context.Context, bytes int, channels ...string) (*pass, error) {
	if bytes > g.most {
		return nil, ErrBufferFull
	}
	p := &pass{bytes: bytes, channels: channels, turn: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, p)
	g.admit()
	g.mu.Unlock()
	select {
	case <-p.turn:
		return p, nil
	case <-ctx.Done():
	}
	if g.leave(p) {
		return nil, context.Cause(ctx)
	}
	return nil, errors.Join(ErrBufferFull, context.Cause(ctx))
}

// leave gives the bytes back and lets the next in line go. It reports whether
// the pass had been admitted.
func (g *gate) leave(p *pass) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.admit()
	if !p.admitted {
		g.waiting = slices.DeleteFunc(g.waiting, func(o *pass) bool { return o == p })
		return false
	}
	for _, channel := range p.channels {
		line := g.lines[channel]
		first := line[0] == p
		line = slices.DeleteFunc(line, func(o *pass) bool { return o == p })
		switch {
		case len(line) == 0:
			delete(g.lines, channel)
			continue
		case first:
			line[0].forward()
		}
		g.lines[channel] = line
	}
	g.free += p.bytes
	return true
}

// admit lets in who waits for bytes, as long as there are enough for the first.
// The caller holds mu.
func (g *gate) admit() {
	for len(g.waiting) > 0 && g.waiting[0].bytes <= g.free {
		p := g.waiting[0]
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.free -= p.bytes
		p.admitted = true
		p.behind = 1 // until it stands in all its lines
		for _, channel := range p.channels {
			if len(g.lines[channel]) > 0 {
				p.behind++
			}
			g.lines[channel] = append(g.lines[channel], p)
		}
		p.forward()
	}
}

// forward moves the pass up in one line.
func (p *pass) forward() {
	if p.behind--; p.behind == 0 {
		close(p.turn)
	}
}
