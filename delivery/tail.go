package delivery

import (
	"sync"
	"sync/atomic"
	"time"

	"rejoin/stream"
)

// tail is the recent end of one channel, shared by all its readers here.
type tail struct {
	channel string
	part    *part
	keep    stream.Retention

	// chain is replaced by the part's worker alone and read by anyone.
	chain atomic.Pointer[chain]

	// mu guards the following. It is never held together with part.mu.
	mu      sync.Mutex
	members []*member
	idle    time.Time // since when there are none
	busy    time.Time // since when there are some
	dead    bool      // taken out of the part's map
}

func newTail(p *part, channel string) *tail {
	t := &tail{channel: channel, part: p, keep: p.b.retention(channel), idle: time.Now()}
	t.chain.Store(&chain{})
	return t
}

// join adds a reader; false if the tail died meanwhile.
func (t *tail) join(m *member) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return false
	}
	if len(t.members) == 0 {
		t.busy = time.Now()
	}
	m.index = len(t.members)
	t.members = append(t.members, m)
	return true
}

// leave removes a reader.
func (t *tail) leave(m *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.members) - 1
	t.members[m.index] = t.members[last]
	t.members[m.index].index = m.index
	t.members[last] = nil
	t.members = t.members[:last]
	if last == 0 {
		t.members = nil
		t.idle = time.Now()
	}
}

// die marks a tail that nobody has read since before; it reports whether it did.
func (t *tail) die(before time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = len(t.members) == 0 && t.idle.Before(before)
	return t.dead
}

// publish makes c the tail's chain and wakes the readers. Only the worker calls it.
func (t *tail) publish(c *chain) {
	t.replace(c)
	t.wake()
}

// replace makes c the tail's chain without waking anyone.
func (t *tail) replace(c *chain) {
	old := t.chain.Swap(c)
	t.part.b.bytes.Add(int64(c.bytes - old.bytes))
}

func (t *tail) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.members {
		m.sub.poke()
	}
}

// oldest is the lowest id that retention by age still serves.
func (t *tail) oldest() stream.ID {
	return stream.AtTime(t.part.b.log.Now().Add(-t.keep.MaxAge))
}
