package ws

import (
	"net"
	"time"

	"github.com/gobwas/ws"

	"rejoin/delivery"
)

// pump gives a connection to one of the broker's pumps. It reports whether there
// is one for this system; if not, nothing was done.
func (h *Handler) pump(conn *net.TCPConn, early []byte, heartbeat time.Duration, s *session) bool {
	if !h.o.Broker.CanPump() {
		return false
	}
	h.conns.Add(1)
	pumped := h.o.Broker.Attach(conn, s.sub, delivery.OutletOptions{
		Framer:     framer{s.box, s.encoder},
		Heartbeat:  heartbeat,
		Stuck:      h.o.Stuck,
		LastWords:  stuck.append(nil),
		Unanswered: func() { s.box.end(unanswered) },
		Receive:    func(b []byte) bool { return s.receive(b) == goesOn },
		Buffered:   early,
		Closed: func() {
			s.box.close()
			h.conns.Done()
		},
	}, func(o *delivery.Outlet) { s.box.poke = o.Poke })
	if !pumped {
		h.conns.Done()
	}
	return pumped
}

// framer writes one connection's frames for a pump.
type framer struct {
	box     *mailbox
	encoder *Encoder
}

// Mail adds the answers to the client.
func (f framer) Mail(p *delivery.Pieces) delivery.Parting {
	frames, order := f.box.take()
	if order != nil {
		return f.part(p, frames, order)
	}
	if len(frames) > 0 {
		p.Shared(frames)
	}
	return delivery.GoOn
}

// Frames adds the frames of the items, those of messages as they are.
func (f framer) Frames(p *delivery.Pieces, items []delivery.Item) {
	for i := range items {
		p.Shared(f.encoder.Frame(&items[i]))
		if items[i].Kind == delivery.Unsubscribed {
			f.box.paid(1)
		}
	}
}

// Beat adds a ping.
func (framer) Beat(p *delivery.Pieces) { p.Shared(ws.CompiledPing) }

// Farewell adds the close frame.
func (f framer) Farewell(p *delivery.Pieces, items []delivery.Item) delivery.Parting {
	end := farewell(items)
	return f.part(p, nil, &end)
}

// part ends the connection behind the frames.
func (f framer) part(p *delivery.Pieces, frames []byte, end *ending) delivery.Parting {
	f.box.close()
	p.Shared(end.append(frames))
	return end.then
}
