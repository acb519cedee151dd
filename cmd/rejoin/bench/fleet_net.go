package bench

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// netReader reads with package net and a goroutine for each connection: it runs
// everywhere, at about twice the CPU of epoll, and cannot see that a server cut
// a slow reader.
type netReader struct {
	*shared
	clients []*client
}

func newNetReader(s *shared, clients []*client) reader { return &netReader{s, clients} }

func (r *netReader) busy() time.Duration { return 0 }

func (r *netReader) drive() error {
	var wg sync.WaitGroup
	for _, k := range r.clients {
		wg.Go(func() { r.serve(k) })
	}
	wg.Wait()
	return nil
}

// netTick is how often a silent connection looks up: each look costs a timer.
const netTick = 100 * time.Millisecond

func (r *netReader) serve(k *client) {
	var (
		ph   phases
		conn net.Conn
		buf  = make([]byte, 8<<10)
	)
	close := func(why error) {
		if conn != nil {
			_ = conn.Close() // the connection is given up: its error tells nothing more
			conn = nil
		}
		k.onClose(r.now(), why)
	}
	for {
		now := r.now()
		ph.turn(r.shared, now, k)
		pause := time.Duration(max(0, min(k.due-now, int64(netTick))))
		switch {
		case k.state == over:
			return
		case k.state == waiting && now < k.due, k.state == open && k.slow && now < k.due:
			time.Sleep(pause)
		case k.state == waiting:
			k.onOpen(now)
			var err error
			if conn, err = r.dial(k); err != nil {
				close(err)
			} else {
				k.onSent(r.now())
			}
		case now >= k.due:
			close(k.why)
		default:
			_ = conn.SetReadDeadline(time.Now().Add(pause)) // fails only when closed, as Read then does
			n, err := conn.Read(buf)
			if n > 0 {
				if why := k.onBytes(buf[:n], r.now()); why != nil {
					close(why)
					continue
				}
				if len(k.out) > 0 {
					_ = conn.SetWriteDeadline(time.Now().Add(openTimeout)) // as above
					_, why := conn.Write(k.out)
					if k.out = k.out[:0]; why != nil {
						close(fmt.Errorf("the connection ended: %w", why))
						continue
					}
				}
			}
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				close(fmt.Errorf("the connection ended: %w", err))
			}
		}
	}
}

// dial opens the client's next connection and sends its request.
func (r *netReader) dial(k *client) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", k.server().addr.String(), openTimeout)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok && k.slow {
		_ = tcp.SetReadBuffer(slowBuffer) // a larger buffer only fills later
	}
	_ = conn.SetWriteDeadline(time.Now().Add(openTimeout)) // fails only when closed, as Write then does
	if _, err := conn.Write(k.request()); err != nil {
		_ = conn.Close() // err says more
		return nil, err
	}
	return conn, nil
}

// slowBuffer is the receive buffer of a slow reader in bytes.
const slowBuffer = 4 << 10
