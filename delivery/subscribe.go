package delivery

import (
	"time"

	"rejoin/stream"
)

// Channel is one channel of a subscription and where reading it starts.
type Channel struct {
	Name  string
	Start Start
}

// Start is where reading a channel starts. The zero value is live: whatever is
// appended from the time of the request.
type Start struct {
	kind  startKind
	id    stream.ID
	n     int
	since time.Time
}

type startKind uint8

const (
	startLive startKind = iota
	startAfter
	startRewind
	startSince
	startLost
)

// StartAfter resumes after a cursor's position; [stream.Earliest] is everything
// retained.
func StartAfter(id stream.ID) Start { return Start{kind: startAfter, id: id} }

// StartRewind starts with the newest n messages retained.
func StartRewind(n int) Start { return Start{kind: startRewind, n: n} }

// StartSince starts with the first message at or after t.
func StartSince(t time.Time) Start { return Start{kind: startSince, since: t} }

// StartLost is the start of a client whose cursor cannot be read: it is told a
// reset, then everything retained.
func StartLost() Start { return Start{kind: startLost} }

// Options are what a Broker needs to know; the zero value of each is useful.
type Options struct {
	// Retention of a channel, as the log was told; nil: the default for all.
	Retention func(channel string) stream.Retention
	// TailBytes bounds the memory of one channel's tail (4 MiB), TotalBytes
	// that of all tails and pages (256 MiB).
	TailBytes, TotalBytes int
	// MoveAge is how old a connection gets, ±20%, before its client is told to
	// move within MoveWithin (10 s); 0: as old as it likes.
	MoveAge, MoveWithin time.Duration
	// Meter hears what is measured; nil: nobody.
	Meter Meter
	// Log is told rarely: a part of the log goes away or comes back.
	Log func(event string, part int, err error)
}

// Meter hears what the broker measures. Its methods are quick, never block and
// are safe for concurrent use.
type Meter interface {
	// Arrived: an entry was read from the log so long after its publish time.
	Arrived(afterPublish time.Duration)
	// Delivered: n messages of one write went out, the oldest of them so long
	// after it arrived here, or after this reader came if that was later.
	Delivered(n int, afterArrival time.Duration)
	// GapTold: a reader was told a gap.
	GapTold(reason stream.Reason)
	// CatchUpRead: one page or stretch was read from the log for readers behind
	// the tail.
	CatchUpRead()
	// FeedLag: a mark waited so long until its channel was read.
	FeedLag(d time.Duration)
}

// Stats is a moment's picture of a Broker.
type Stats struct {
	Subscriptions int  // open subscriptions
	Channels      int  // channels with at least one reader
	Tails         int  // channels held in memory
	Bytes         int  // held by tails and pages
	Stale         bool // at least one part of the log does not answer
}
