package stream

import "errors"

// The kinds of failure of a log. An engine's error wraps exactly one of them
// (test with [errors.Is]) and, below it, what the log itself said.
var (
	// ErrUnavailable: the log does not answer, or refuses for now, and nothing was
	// appended.
	ErrUnavailable = errors.New("log unavailable")
	// ErrUnknownOutcome: the answer to an append was lost; it may be in the
	// log. Repeating it with the same idempotency key is safe.
	ErrUnknownOutcome = errors.New("unknown outcome")
	// ErrBroken: the log refuses this channel, or everything, until somebody mends
	// it: a key of the wrong type, a command not allowed.
	ErrBroken = errors.New("log broken")
	// ErrFull: the log has no room; nothing was appended.
	ErrFull = errors.New("log full")
	// ErrConflict: the idempotency key was used with another payload, event, key
	// or end; nothing was appended.
	ErrConflict = errors.New("idempotency key already used for another message")
	// ErrEnded: the channel was ended; nothing was appended.
	ErrEnded = errors.New("channel has ended")
	// ErrNotAttempted: this message of several was not appended, since the
	// outcome of one before it on the same channel is unknown.
	ErrNotAttempted = errors.New("not attempted")
	// ErrListCursor: this is no cursor of a list of channels.
	ErrListCursor = errors.New("not a cursor of this list: send it back as it came, or begin without one")
	// ErrClosed: this Log or Session was closed here.
	ErrClosed = errors.New("log closed")
)

// Error says which operation failed on which channel, why, and what to do.
type Error struct {
	Op      string // "append", "read", "delete" …
	Channel string // "" when the failure is not one channel's
	Kind    error  // one of the Err… values above
	Err     error  // what the log said, or nil
	Hint    string // what an operator can do, or ""
}

func (e *Error) Error() string {
	s := e.Op
	if e.Channel != "" {
		s += " " + e.Channel
	}
	s += ": " + e.Kind.Error()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap makes both the kind and the cause visible to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
