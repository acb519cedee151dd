package stream

import (
	"context"
	"time"
)

// Log is an engine: an append-only, bounded log for each channel. It is safe
// for concurrent use. No call waits longer than its context or the engine's own
// bound (redis.timeout), whichever ends first. Errors wrap the Err… kinds.
type Log interface {
	// Append adds one message and returns only when the log has it.
	Append(ctx context.Context, m Message) (Appended, error)
	// AppendAll adds messages in as few round trips as the log allows; results
	// stand in the order of the messages. Messages of one channel are appended
	// in their order, and one that is refused stops no other. Behind one whose
	// outcome is unknown the later ones of its channel are not appended,
	// [ErrNotAttempted]; nothing is tried twice.
	AppendAll(ctx context.Context, ms []Message) []Result
	// Channels lists channels that have messages retained, a page at a time. A
	// cursor that is none of a page's is [ErrListCursor].
	Channels(ctx context.Context, q ChannelQuery) (ChannelPage, error)
	// Read answers one query. A Page's own Err is returned as the error.
	Read(ctx context.Context, q Query) (Page, error)
	// Bounds says what of a channel is served now.
	Bounds(ctx context.Context, channel string) (Bounds, error)
	// Delete drops the channel's messages; its counter stays.
	Delete(ctx context.Context, channel string) error

	// Known is the newest id of the channel this engine has been answered or
	// told, zero if none: at least that of every Append answered here. It may
	// forget channels of long ago and asks nobody.
	Known(channel string) ID
	// Now is the log's clock, as well as it is known here.
	Now() time.Time

	// Parts is how many parts of the log can be away on their own (masters of a
	// cluster), at least 1. It does not change.
	Parts() int
	// Part is the part a channel lives in, 0 ≤ Part < Parts.
	Part(channel string) int
	// Listen opens a session with one part. It returns when the session is
	// proven to work, or with an error; it is called again after a while.
	Listen(ctx context.Context, part int) (Session, error)

	// Close ends the engine and its sessions and waits for their goroutines.
	Close() error
}

// Session is one unbroken hearing of a part of the log.
//
// The promise: every append and delete that the log takes while the session
// lives is announced by Wait at least once, or the session ends with an error.
// What was appended before Listen returned may not be announced: whoever opens a
// session then reads every channel it cares about, once. Announcements may
// come twice, late, or for what has been read already: they say "look", never
// what is true.
//
// Wait and Read may be called at the same time as each other and Read by
// several goroutines; each takes a connection of its own, so that a long read
// holds up neither the marks nor the other readers.
type Session interface {
	// Wait blocks until there is news and returns it, oldest first. It returns
	// an error when the session is over, as every later call does.
	Wait(ctx context.Context) ([]Mark, error)
	// Read answers the queries in as few round trips as the log allows, pages
	// in the order of the queries. What concerns one channel alone is its
	// Page's Err; an error means the session is over.
	Read(ctx context.Context, queries []Query) ([]Page, error)
	// Heard is when the log last answered anything in this session.
	Heard() time.Time
	// Close ends the session, in-flight calls included, and waits for its
	// goroutines. It may be called more than once and from anywhere.
	Close()
}

// Result is the outcome of one message of several.
type Result struct {
	Appended
	Err error
}

// ChannelQuery asks for names of channels that have messages retained.
type ChannelQuery struct {
	Match  Pattern // the zero value: all
	Cursor string  // where the page before ended; "" to begin
	Limit  int     // about so many names, ≥ 1
}

// Covers reports whether Match covers the name.
func (q ChannelQuery) Covers(name string) bool {
	return q.Match.String() == "" || q.Match.Match(name)
}

// ChannelPage is a page of names, in no order that is promised. Next is "" on
// the last page; a page may be empty and not be the last. Over all pages every
// channel that has messages all the while comes at least once; seldom twice.
type ChannelPage struct {
	Names []string
	Next  string
}

// Mark announces that a channel changed.
type Mark struct {
	Channel string
	ID      ID   // the new entry's id; for a delete the channel's last id
	Bytes   int  // size of the new entry, 0 if unknown
	Deleted bool // the channel's messages up to ID were deleted
}

// Query asks for a stretch of one channel. Retention is applied by the engine:
// a page holds only what is served.
type Query struct {
	Channel string
	// After: entries above this id, oldest first (when Before is zero).
	After ID
	// Before, when not zero: the newest entries below this id. They too come
	// oldest first in the page.
	Before ID
	// Limit is the most entries, ≥ 1. MaxBytes, when positive, ends the page
	// with the entry that reaches it (Entry.Bytes); one entry is always given.
	Limit    int
	MaxBytes int
	// Follow: only Entries, More and Err are wanted. The cheapest read there
	// is, for a reader that checks the chain itself.
	Follow bool
}

// Page is the answer to a Query, a true picture of the channel at one moment
// after the query was made.
type Page struct {
	Channel string
	Entries []Entry // ascending, only entries of ours (foreign ones are skipped)
	More    bool    // there is more in the query's direction
	Err     error   // this channel alone could not be read; wraps a kind

	// Last is the newest id the channel ever had (also when its messages are
	// gone), zero if it never had one or was forgotten. Life is its b.
	Last ID
	Life uint64
	// Ended: the channel has ended, and Last is its end.
	Ended bool
	// Floor: everything up to this id was deleted; zero if nothing ever was.
	Floor ID
	// Placed, for After: the newest entry at or below After is After itself, or
	// there is none. An engine may look at what it still stores for this, or at
	// what it serves: to a cursor of its own log it is the same. If it is false,
	// Oldest is the oldest entry served.
	Placed bool
	Oldest ID
}

// Bounds is what of a channel is served at one moment.
type Bounds struct {
	First  ID     // oldest entry served; zero: none
	Last   ID     // newest id ever given; zero: never had one
	Length uint64 // entries served
}
