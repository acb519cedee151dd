package delivery

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"rejoin/stream"
)

// Batch is what a subscription has for its client now, in the order it is to be
// sent. It and its Items are valid until the next call of Next.
type Batch struct {
	Items []Item
	// More: call Next again without waiting for Wake.
	More bool
	// Done: nothing will ever come behind these items; close the connection,
	// by abort on SSE.
	Done bool
}

// Item is one thing to send: a message or something told beside messages.
type Item struct {
	Kind    Kind
	Channel string  // Message, Gap, End, Subscribed, Unsubscribed, Error
	Record  *Record // Message
	Gap     *stream.Gap
	// Pos, for Message, Gap and End, is the channel's cursor once this item is sent.
	Pos    stream.ID
	Ready  []ReadyChannel // Ready; Subscribed: the one channel
	Tag    any            // Subscribed, Unsubscribed: what Add or Remove was given
	State  *State         // StateChange
	Within time.Duration  // Move
	Err    error          // Error
}

// Kind says what an Item is.
type Kind uint8

// The kinds of Item, in the contract's words.
const (
	Message      Kind = iota + 1
	Ready             // the position of every channel is known; before any message
	Gap               // at its place among the messages
	StateChange       // replaying, live, stale
	End               // after the last message of an ended channel
	Subscribed        // a channel that was added; before its messages
	Unsubscribed      // a channel that was removed; nothing of it comes behind
	Move              // this server goes: reconnect within Within
	Expired           // the client's right to read has ended, and so has the subscription
	Error             // Err ends the subscription
)

// ReadyChannel is a channel's position at the start of a subscription.
type ReadyChannel struct {
	Channel string
	Cursor  stream.ID
	Replay  uint64 // messages between Cursor and the head, as far as they are retained
}

// State is how the connection stands to the log.
type State struct {
	State    StateName
	Since    time.Time
	Channels []string // the channels touched; nil: all of the connection
}

// StateName is one of the contract's states.
type StateName string

// The states.
const (
	Replaying StateName = "replaying"
	Live      StateName = "live"
	Stale     StateName = "stale"
)

// MarshalJSON writes the contract's state object.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		State    StateName `json:"state"`
		Since    string    `json:"since"`
		Channels []string  `json:"channels,omitempty"`
	}{s.State, s.Since.UTC().Format(stream.TimeFormat), s.Channels})
}

// Record is an entry in memory, shared by all its readers, with its encodings.
type Record struct {
	Channel string
	stream.Entry
	Arrived time.Time // when this server read it

	frames [forms]atomic.Pointer[[]byte]
}

// Bytes is what the record counts for in budgets: the entry and one encoding.
func (r *Record) Bytes() int { return 2 * r.Entry.Bytes() }

// Form is a wire form a record is encoded in once, on first use.
type Form uint8

// The wire forms.
const (
	FormSSE          Form = iota // an event-stream frame; its first line is the id of a connection with one channel
	FormSSEJSON                  // the same with the whole message as JSON
	FormSSEChunk                 // FormSSE as a chunk of HTTP/1.1
	FormSSEJSONChunk             // FormSSEJSON as a chunk of HTTP/1.1
	FormJSON                     // the message object
	FormWS                       // a WebSocket text frame, header included
	forms
)

// Frame is the record's encoding in a form; encode makes it the first time and
// must always give the same bytes for a form. Nobody may change the result.
func (r *Record) Frame(f Form, encode func(*Record) []byte) []byte {
	if p := r.frames[f].Load(); p != nil {
		return *p
	}
	b := encode(r)
	r.frames[f].CompareAndSwap(nil, &b)
	return *r.frames[f].Load()
}
