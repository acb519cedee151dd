package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP proxy before a server that can lose answers.
type Proxy struct {
	Addr string

	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	cut   []byte     // a request with this text in it is the one to cut
	hits  int        // requests still to be cut
	cuts  int        // how many were cut
	mute  bool       // replies are swallowed, connections stay
	conns map[net.Conn]bool
	over  bool
}

// NewProxy listens on a free port and passes everything to target until told
// otherwise.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, l: l, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		_ = l.Close()
		p.CloseConns()
		p.wg.Wait()
	})
	return p
}

// URL is the proxy's address as a redis:// setting.
func (p *Proxy) URL() string { return "redis://" + p.Addr }

// CutReply loses the answers to the next n requests whose bytes hold text (such
// as "evalsha"): the server gets and does the request, its answer is read and
// thrown away, and both connections are closed.
func (p *Proxy) CutReply(text string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.hits = []byte(text), n
}

// Cuts is how many answers were lost so far.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Mute swallows every answer from now on (or no longer), keeping connections.
func (p *Proxy) Mute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
}

// CloseConns closes every connection that passes through now.
func (p *Proxy) CloseConns() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		if p.over {
			_ = c.Close()
			_ = s.Close()
		} else {
			p.conns[c], p.conns[s] = true, true
		}
		p.mu.Unlock()
		pair := &pair{p: p, client: c, server: s}
		p.wg.Go(pair.requests)
		p.wg.Go(pair.replies)
	}
}

// pair is one connection through the proxy.
type pair struct {
	p              *Proxy
	client, server net.Conn

	mu     sync.Mutex // guards cutting
	doomed bool       // the next answer is the one to lose
}

func (c *pair) close() {
	_ = c.client.Close()
	_ = c.server.Close()
	c.p.mu.Lock()
	delete(c.p.conns, c.client)
	delete(c.p.conns, c.server)
	c.p.mu.Unlock()
}

func (c *pair) requests() {
	defer c.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buf)
		if n > 0 {
			if c.p.take(buf[:n]) {
				c.mu.Lock()
				c.doomed = true
				c.mu.Unlock()
			}
			if _, err := c.server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *pair) replies() {
	defer c.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buf)
		if n > 0 {
			c.mu.Lock()
			doomed := c.doomed
			c.mu.Unlock()
			if doomed {
				return
			}
			c.p.mu.Lock()
			mute := c.p.mute
			c.p.mu.Unlock()
			if !mute {
				if _, err := c.client.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// take reports whether this request is one to cut, and counts it.
func (p *Proxy) take(req []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hits == 0 || !bytes.Contains(bytes.ToLower(req), bytes.ToLower(p.cut)) {
		return false
	}
	p.hits--
	p.cuts++
	return true
}
