package stream

import "time"

// Message is what a publisher hands to [Log.Append].
type Message struct {
	Channel string
	Payload string // UTF-8, never looked into, may be empty
	Event   string // SSE event name, "" for none
	Key     string // what conflation groups by, "" for none
	// IdempotencyKey, 1-200 bytes, makes the append safe to repeat on this
	// channel within the engine's idempotency TTL; "" for none.
	IdempotencyKey string
	// End ends the channel: with this message ([EndMessage]), or with an entry
	// that is no message ([EndAlone]; of the other fields only Channel counts).
	// A later append is refused with [ErrEnded]; EndAlone on a channel that has
	// ended appends nothing and is answered with the end's id, Replayed.
	End End
}

// Appended is the answer to an append.
type Appended struct {
	ID ID
	// Replayed: nothing was appended, this is the first answer to the same
	// idempotency key, or the id of the end of a channel that has one.
	Replayed bool
}

// Entry is one immutable message of the log, as read.
type Entry struct {
	ID ID
	// Prev (the log's p) is the MS of the entry before this one; 0 for the
	// first entry of a life of the log.
	Prev uint64
	// Life (the log's b) is the MS of the first entry of this entry's life.
	Life    uint64
	Payload string
	Event   string
	Key     string
	// End says whether the channel ends with this entry.
	End End
}

// End says whether a channel ends with an entry.
type End uint8

// What an entry says of the channel's end.
const (
	NotEnd     End = iota
	EndAlone       // an entry of its own in the chain: no message, only the end
	EndMessage     // a message, and the last one
)

// Before is the position just before the entry: reading on from it, the rule
// finds this entry in its place. For the first entry of a life there is none
// that can be proven; ok is false.
func (e *Entry) Before() (pos ID, ok bool) {
	switch {
	case e.Prev != 0 && e.ID.N > 1:
		return ID{MS: e.Prev, N: e.ID.N - 1}, true
	case e.ID.N == 1:
		return BeforeFirst, true
	}
	return Earliest, false
}

// Bytes is what the entry counts for in budgets: its texts and a fixed
// overhead for the structure around them.
func (e *Entry) Bytes() int {
	return len(e.Payload) + len(e.Event) + len(e.Key) + EntryOverhead
}

// EntryOverhead is the fixed part of [Entry.Bytes].
const EntryOverhead = 128

// Retention says how much of a channel is served. Both limits hold exactly, on
// every engine, whatever an engine still has stored.
type Retention struct {
	MaxMessages int           // only the newest so many
	MaxAge      time.Duration // only those younger than this
	ChannelTTL  time.Duration // how long a silent channel's counter is remembered
}

// DefaultRetention is what the contract promises when nothing is set.
var DefaultRetention = Retention{MaxMessages: 1000, MaxAge: 24 * time.Hour, ChannelTTL: 168 * time.Hour}
