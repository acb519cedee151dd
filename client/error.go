package client

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is what a server answered instead of doing what it was asked: a problem
// (RFC 9457).
type Error struct {
	Status int    // of HTTP
	Code   string // one of the contract's words, such as "channel_ended"; "" if the answer was no problem
	Detail string // for people
	// RetryAfter is how long the server asked to wait; 0: it said nothing.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	s := strconv.Itoa(e.Status)
	if e.Code != "" {
		s += " " + e.Code
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Codes of the contract that a caller may want to tell apart.
const (
	CodeUnauthorized   = "unauthorized"         // 401: the token is missing, wrong or has run out
	CodeForbidden      = "forbidden"            // 403: the token does not allow it
	CodeNotFound       = "not_found"            // 404
	CodeEnded          = "channel_ended"        // 409: nothing more can be published
	CodeTooLarge       = "payload_too_large"    // 413
	CodeConflict       = "idempotency_conflict" // 422: the key was used for another message
	CodeTooMany        = "too_many"             // 429
	CodeLogBroken      = "log_broken"           // 500: an operator has to mend the channel
	CodeLogUnavailable = "log_unavailable"      // 503: nothing was appended
	CodeUnknownOutcome = "unknown_outcome"      // 504: it may have been
	CodeNotAttempted   = "not_attempted"        // of one message of several
	CodeLogFull        = "log_full"             // 507
)

// ErrProtocol says that what answers does not speak as a Rejoin server does.
var ErrProtocol = errors.New("client: this is not what a Rejoin server sends")

// errNoAnswer is the fault of a request that took too long.
var errNoAnswer = errors.New("client: the server does not answer")

// maxProblem is how much of an error's body is read.
const maxProblem = 64 << 10

// problem is a problem object, as the contract writes it.
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func (p problem) err() *Error {
	e := &Error{Status: p.Status, Code: p.Code, Detail: p.Detail}
	if e.Detail == "" {
		e.Detail = p.Title
	}
	return e
}

// errorOf reads the answer to a request that was refused.
func errorOf(resp *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	var p problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		p = problem{Title: strings.TrimSpace(http.StatusText(resp.StatusCode) + " (not an answer of Rejoin's own)")}
	}
	e := p.err()
	e.Status = resp.StatusCode
	e.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"))
	return e
}

// mostRetryAfter bounds what a server may ask for.
const mostRetryAfter = time.Minute

// parseRetryAfter reads seconds or a date (RFC 9110, section 10.2.3).
func parseRetryAfter(s string) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(s); err == nil {
		d = time.Until(t)
	}
	return min(max(d, 0), mostRetryAfter)
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// temporary reports whether trying again can help. An answer says it by its
// status; where there was none, all but what the user has to mend is the
// network's.
func temporary(err error) bool {
	if errors.Is(err, ErrProtocol) {
		return false
	}
	if _, ok := errors.AsType[*tokenError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*retryable](err); ok {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return true
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return e.Status >= 500 && e.Code != CodeLogBroken
}

// mayHaveAppended reports whether a publish that failed so can have put its
// message into the log all the same.
func mayHaveAppended(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Code {
		case CodeLogUnavailable, CodeLogFull, CodeLogBroken, CodeNotAttempted:
			return false
		}
		return e.Status >= 500
	}
	if _, ok := errors.AsType[*tokenError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return !ok || op.Op != "dial" // else the request has not left
}

// PublishError says what became of a message that was not acknowledged. It wraps
// the reason: an [*Error] if a server gave one, else what the network or the
// context said, or [ErrBufferFull].
type PublishError struct {
	Channel string
	// IdempotencyKey is what the message was tried with. Repeated with it, the
	// message is appended once.
	IdempotencyKey string
	Attempts       int // requests made
	// Unknown: the message may be in the log, or still get there. Else nothing
	// was appended.
	Unknown bool
	Err     error
}

func (e *PublishError) Error() string {
	s := "publish to " + e.Channel + ": " + e.Err.Error()
	if e.Attempts > 1 {
		s += fmt.Sprintf(" (tried %d times)", e.Attempts)
	}
	if e.Unknown {
		return s + "; it may have been appended: repeat it with the idempotency key " + e.IdempotencyKey
	}
	return s + "; nothing was appended"
}

func (e *PublishError) Unwrap() error { return e.Err }
