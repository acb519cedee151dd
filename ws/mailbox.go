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
	posted chan struct{} // one slot: there may be something
	owed   chan struct{} // a place for each answer that is not sent yet
	shut   chan struct{} // closed by the writer: nothing is taken any more

	// mu guards the following.
	mu      sync.Mutex
	pinged  bool
	pong    []byte // the payload of the newest ping
	answers []byte // frames
	count   int    // of answers
	end     *ending
}

// maxOwed bounds the answers owed to one client. An answer is a few hundred
// bytes.
const maxOwed = 64

// ending is an order to close.
type ending struct {
	code   ws.StatusCode // 0: without a code
	reason string
	last   []byte // the frame told before
	// deaf: what the client sends is no longer understood, so its close frame
	// would not be seen.
	deaf bool
}

func newMailbox() *mailbox {
	return &mailbox{
		posted: make(chan struct{}, 1),
		owed:   make(chan struct{}, maxOwed),
		shut:   make(chan struct{}),
	}
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

// answer leaves a frame in the place that was owed.
func (b *mailbox) answer(frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, frame...)
	b.count++
	b.post()
}

// ping leaves the answer to a ping, in place of an older one not sent yet
// (RFC 6455, section 5.5.3).
func (b *mailbox) ping(payload []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pinged, b.pong = true, payload
	b.post()
}

// close leaves the order to close; the first one counts.
func (b *mailbox) close(e ending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil {
		b.end = &e
		b.post()
	}
}

// post wakes the writer; mu is held.
func (b *mailbox) post() {
	select {
	case b.posted <- struct{}{}:
	default:
	}
}

// take gives the writer the frames to send now, and the order to close behind
// them, if there is one.
func (b *mailbox) take() (frames []byte, end *ending) {
	b.mu.Lock()
	n := b.count
	if b.pinged {
		frames = appendFrame(frames, ws.OpPong, b.pong)
	}
	frames = append(frames, b.answers...)
	b.pinged, b.pong, b.answers, b.count = false, nil, nil, 0
	end = b.end
	b.mu.Unlock()
	b.paid(n)
	return frames, end
}
