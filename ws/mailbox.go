package ws

import (
	"sync"

	"github.com/gobwas/ws"
)

// mailbox is what is left for the writer of a connection, to be sent between
// two frames: the answer to the newest ping, answers to what the client asked,
// and the order to close. It is bounded: who reads the client's messages waits
// while too many answers are owed.
type mailbox struct {
	poke func()        // wakes the writer
	owed chan struct{} // a place for each answer that is not sent yet
	shut chan struct{} // closed by the writer: nothing is taken any more
	once sync.Once     // closes shut

	// mu guards the following.
	mu      sync.Mutex
	pinged  bool
	pong    []byte // the payload of the newest ping
	answers []byte // frames
	count   int    // of answers
	order   *ending
}

// maxOwed bounds the answers owed to one client. An answer is a few hundred
// bytes.
const maxOwed = 64

func newMailbox() *mailbox {
	return &mailbox{owed: make(chan struct{}, maxOwed), shut: make(chan struct{})}
}

// owe waits for a place for one answer more; false when the writer is done.
func (b *mailbox) owe() bool {
	select {
	case <-b.shut:
		return false
	default:
	}
	select {
	case b.owed <- struct{}{}:
		return true
	case <-b.shut:
		return false
	}
}

// paid frees the places of n answers.
func (b *mailbox) paid(n int) {
	for range n {
		<-b.owed
	}
}

// close is the writer's word that it takes nothing any more.
func (b *mailbox) close() { b.once.Do(func() { close(b.shut) }) }

// answer leaves a frame in the place that was owed.
func (b *mailbox) answer(frame []byte) {
	b.mu.Lock()
	b.answers = append(b.answers, frame...)
	b.count++
	b.mu.Unlock()
	b.poke()
}

// ping leaves the answer to a ping, in place of an older one not sent yet
// (RFC 6455, section 5.5.3).
func (b *mailbox) ping(payload []byte) {
	b.mu.Lock()
	b.pinged, b.pong = true, payload
	b.mu.Unlock()
	b.poke()
}

// end leaves the order to close; the first one counts.
func (b *mailbox) end(e ending) {
	b.mu.Lock()
	if b.order == nil {
		b.order = &e
	}
	b.mu.Unlock()
	b.poke()
}

// take gives the writer the frames to send now, and the order to close behind
// them, if there is one.
func (b *mailbox) take() (frames []byte, order *ending) {
	b.mu.Lock()
	n := b.count
	if b.pinged {
		frames = appendFrame(frames, ws.OpPong, b.pong)
	}
	frames = append(frames, b.answers...)
	b.pinged, b.pong, b.answers, b.count = false, nil, nil, 0
	order = b.order
	b.mu.Unlock()
	b.paid(n)
	return frames, order
}
