package client

import (
	"time"

	"rejoin/stream"
)

// Event is what a subscription yields: [Message], and what is told beside
// messages: [Ready], [Gap], [State], [Move], [End], [Disconnected]. There are
// no others, but later versions may have more: leave out what you do not know.
type Event interface {
	// Cursor is the position behind this event: a subscription that begins
	// After it goes on with what comes next. Keep it where you keep what you
	// made of the event. It is empty until the position is known.
	Cursor() string

	event()
}

// at is the position of an event.
type at string

func (a at) Cursor() string { return string(a) }
func (at) event()           {}

// Message is one message of a channel. In a channel they come in order, each
// once.
type Message struct {
	at
	Channel string
	ID      stream.ID
	Time    time.Time // of publishing, by the log's clock
	Payload string
	Event   string // "" for none
	Key     string // "" for none
}

// Ready comes first on each connection, before any message: the position is
// known, and from now on a break costs nothing.
type Ready struct {
	at
	Channels map[string]ReadyChannel
}

// ReadyChannel is a channel's position at the start of a connection.
type ReadyChannel struct {
	Cursor stream.ID
	// Replay is how many messages are to be caught up. Long-poll does not say.
	Replay uint64
}

// Gap comes at its place among the messages when some can no longer be had.
type Gap struct {
	at
	Channel string
	After   stream.ID // the position it is told to
	Next    stream.ID // the message that comes next; zero: none yet
	Missed  uint64    // exactly how many, if Reason is Trimmed
	Reason  stream.Reason
}

// Why there is a gap.
const (
	// Trimmed: the messages were removed by retention or deleted.
	Trimmed = stream.Trimmed
	// Reset: the log was lost or rolled back, or the cursor is not of this log.
	// What comes next may have come before.
	Reset = stream.Reset
)

// State tells how far what is read is from the log's end.
type State struct {
	at
	Name     StateName
	Since    time.Time // zero: not told
	Channels []string  // those touched; nil: all
}

// StateName is one of the contract's states.
type StateName string

// The states.
const (
	Replaying StateName = "replaying" // catching up
	Live      StateName = "live"      // caught up
	Stale     StateName = "stale"     // the log does not answer the server
)

// Move tells that the server goes away. The subscription changes the connection
// by itself, at a random moment within that time.
type Move struct {
	at
	Within time.Duration
}

// End comes after the last message of a channel that has ended. When all have,
// the subscription is over.
type End struct {
	at
	Channel string
	ID      stream.ID // of the end, an entry of its own or the last message
}

// Disconnected tells that there is no connection. The subscription tries again
// after Wait by itself, and goes on where it was.
type Disconnected struct {
	at
	Err  error
	Wait time.Duration
}
