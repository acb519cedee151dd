package logtest

import (
	"time"

	"rejoin/stream"
)

// Options of a store, the same for all its clients.
type Options struct {
	Retention      stream.Retention // of every channel; zero fields: the default's
	IdempotencyTTL time.Duration    // 0: the engine's default
	// Script replaces the engine's append, where it has one in source; "": its own.
	Script string
}

// New makes an empty store that no other test touches.
type New func(Options) (Store, error)

// Store is one log with any number of clients.
type Store interface {
	// Open opens one more client, as another server would. Who opens it
	// closes it, before the store.
	Open() (stream.Log, error)
	// Faults is how the store can be hurt, nil if it lives and dies with its
	// only client.
	Faults() Faults
	// Close ends the store and drops what it holds.
	Close() error
}

// Faults is what may happen to a store behind its clients' backs. Each concerns
// one channel, so that sequences on other channels can run beside it; each must
// be quick, a model check does hundreds of thousands.
type Faults interface {
	// Forget makes a client forget the last id it knows of the channel (its
	// Known is zero then), as a server that was just started.
	Forget(l stream.Log, channel string)
	// SetClock: from now on the log's clock reads ms, standing still, for
	// every append to any channel through this client. The suite passes
	// moments far in the future, back and forth.
	SetClock(l stream.Log, ms uint64)

	// Wipe drops everything of the channel, as FLUSHALL does.
	Wipe(channel string) error
	// Save remembers all that is stored of the channel; restore brings exactly
	// that back, as a restart from an older snapshot does. It may be called
	// more than once.
	Save(channel string) (restore func() error, err error)
	// LoseMessages drops the channel's messages as their expiry does (the
	// stream's key), LoseState what the engine remembers beside them (the
	// small key).
	LoseMessages(channel string) error
	LoseState(channel string) error
	// Trim drops the stored messages below first, as the age sweep does.
	Trim(channel string, first stream.ID) error
	// AddForeign adds an entry that is none of ours (XADD with some other
	// field) under this id, or under the store's own choice (*) if it is zero.
	// An id the store refuses is no error.
	AddForeign(channel string, id stream.ID) error
	// Remove drops one stored message from the middle (XDEL).
	Remove(channel string, id stream.ID) error
}
