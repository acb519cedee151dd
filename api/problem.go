package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/ws"
)

// problem is an answer that says what went wrong: RFC 9457, and code, a word
// that never changes. Its type is about:blank, so its title is the status' text.
type problem struct {
	Status int
	Code   string
	Detail string

	retryAfter time.Duration // 0: says nothing
	challenge  string        // WWW-Authenticate; "": none
	cause      error         // for the server's log, never sent
}

// The codes of the contract, and those for what it gives no word for.
const (
	codeBadRequest       = "bad_request"
	codeUnauthorized     = "unauthorized"
	codeForbidden        = "forbidden"
	codeNotFound         = "not_found"
	codeMethodNotAllowed = "method_not_allowed"
	codeRequestTimeout   = "request_timeout"
	codeTooLarge         = "payload_too_large"
	codeConflict         = "idempotency_conflict"
	codeEnded            = "channel_ended"
	codeNotAttempted     = "not_attempted"
	codeUpgradeRequired  = "upgrade_required"
	codeTooMany          = "too_many"
	codeInternal         = "internal"
	codeLogBroken        = "log_broken"
	codeLogUnavailable   = "log_unavailable"
	codeLogFull          = "log_full"
	codeUnknownOutcome   = "unknown_outcome"
	codeNotReady         = "not_ready"
	codeKeysUnavailable  = "keys_unavailable"
)

var codes = []string{
	codeBadRequest, codeUnauthorized, codeForbidden, codeNotFound, codeMethodNotAllowed, codeRequestTimeout, codeTooLarge, codeConflict, codeEnded,
	codeNotAttempted, codeUpgradeRequired, codeTooMany,
	codeInternal, codeLogBroken, codeLogUnavailable, codeLogFull, codeUnknownOutcome, codeNotReady, codeKeysUnavailable,
}

func (p *problem) Error() string { return p.Code + ": " + p.Detail }

func badRequest(format string, args ...any) *problem {
	return &problem{Status: http.StatusBadRequest, Code: codeBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// comeBack is when a client may try again what the log could not do now. A log
// that restarts is found again within a second.
const comeBack = time.Second

// problemOf says an error in the contract's words. What the log itself said
// stays here: it may name machines and keys.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if bad, ok := errors.AsType[*delivery.RequestError](err); ok {
		return badRequest("%s", bad.Error())
	}
	if bad, ok := errors.AsType[*ws.HandshakeError](err); ok {
		code := map[int]string{http.StatusForbidden: codeForbidden, http.StatusUpgradeRequired: codeUpgradeRequired}[bad.Status]
		return &problem{Status: bad.Status, Code: cmp.Or(code, codeBadRequest), Detail: bad.Detail}
	}
	if errors.Is(err, stream.ErrChannelName) {
		return badRequest("%s", err.Error())
	}
	p := &problem{cause: err}
	switch {
	case errors.Is(err, stream.ErrConflict):
		p.Status, p.Code = http.StatusUnprocessableEntity, codeConflict
		p.Detail = "this Idempotency-Key was used on this channel with another payload, event, key or end; nothing was appended"
	case errors.Is(err, stream.ErrEnded):
		p.Status, p.Code = http.StatusConflict, codeEnded
		p.Detail = "this channel has ended; nothing was appended"
	case errors.Is(err, stream.ErrNotAttempted):
		p.Status, p.Code = http.StatusFailedDependency, codeNotAttempted
		p.Detail = "it is not known whether the message before this one on the channel was appended; this one was not"
	case errors.Is(err, stream.ErrUnknownOutcome):
		p.Status, p.Code = http.StatusGatewayTimeout, codeUnknownOutcome
		p.Detail = "the log did not answer in time; " + cmp.Or(outcomeOf(err).unknown, "nobody knows whether it did what was asked")
	case errors.Is(err, stream.ErrFull):
		p.Status, p.Code = http.StatusInsufficientStorage, codeLogFull
		p.Detail = "the log has no room" + outcomeOf(err).none
	case errors.Is(err, stream.ErrBroken):
		p.Status, p.Code = http.StatusInternalServerError, codeLogBroken
		p.Detail = "the log refuses this until an operator mends it" + outcomeOf(err).none
		if e, ok := errors.AsType[*stream.Error](err); ok && e.Hint != "" {
			p.Detail += " (" + e.Hint + ")"
		}
	case errors.Is(err, stream.ErrUnavailable), errors.Is(err, stream.ErrClosed):
		p.Status, p.Code = http.StatusServiceUnavailable, codeLogUnavailable
		p.Detail = "the log is not available now" + outcomeOf(err).none
		p.retryAfter = comeBack
	default:
		p.Status, p.Code = http.StatusInternalServerError, codeInternal
		p.Detail = "this is a fault of the server; its log says more"
	}
	return p
}

// outcome is what a problem says of what was to be written.
type outcome struct {
	none    string // behind a failure that left all as it was
	unknown string // of one that may have come after the deed
}

// Of what a call was for, as [during] names it. Of reading there is nothing to
// say.
const (
	toAppend = "append"
	toEnd    = "end"
	toDelete = "delete"
)

var outcomes = map[string]outcome{
	toAppend: {"; nothing was appended", "the message may have been appended: repeat it with the same Idempotency-Key"},
	toEnd:    {"; the channel was not ended", "the channel may have been ended: repeat it"},
	toDelete: {"; nothing was deleted", "the channel may have been deleted: look, or repeat it"},
}

func outcomeOf(err error) outcome {
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return outcomes[e.Op]
	}
	return outcome{}
}

// during names what a call to the log was for in its error. The log names the
// step that failed, which may be one before, such as finding a master.
func during(op string, err error) error {
	e, ok := errors.AsType[*stream.Error](err)
	if !ok || e.Op == op {
		return err
	}
	return &stream.Error{Op: op, Channel: e.Channel, Kind: e.Kind, Err: err, Hint: e.Hint}
}

// body is the problem as one line of JSON.
func (p *problem) body() []byte {
	b, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}{"about:blank", http.StatusText(p.Status), p.Status, p.Detail, p.Code})
	if err != nil {
		panic(err) // strings and a number: cannot happen
	}
	return b
}

// problemBody is the problem object of an error, for transports that tell it in
// a frame.
func problemBody(err error) []byte { return problemOf(err).body() }

// note says an error in the contract's words, and counts it.
func (a *API) note(err error) *problem {
	p := problemOf(err)
	a.metrics.problems.WithLabelValues(p.Code).Inc()
	if p.cause != nil && p.Status >= 500 {
		a.rare.Warn().Err(p.cause).Str("code", p.Code).Msg("a request failed")
	}
	return p
}

// setHead sets the headers that belong to the problem, whatever its form.
func (p *problem) setHead(head http.Header, r *http.Request) {
	p.setRetryAfter(head)
	if p.challenge != "" {
		head.Set("WWW-Authenticate", p.challenge)
	}
	if p.Status == http.StatusRequestTimeout && r.ProtoMajor == 1 {
		head.Set("Connection", "close") // the rest of the body may still come
	}
}

func (p *problem) setRetryAfter(head http.Header) {
	if p.retryAfter > 0 {
		head.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
}

// fail answers a request with a problem, and counts it.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := a.note(err)
	p.setHead(w.Header(), r)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(p.body(), '\n'))
}

// handle makes a handler of a function whose error is the answer. The function
// has written nothing when it returns one.
func (a *API) handle(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			a.fail(w, r, err)
		}
	}
}
