package delivery

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"rejoin/stream"
)

// Request is what a client that subscribes asks for, in the words that all
// transports share. What one transport adds it takes from Params.
type Request struct {
	Channels  []Channel
	Heartbeat time.Duration // a sign of life after so long without a byte sent
	Params    Params
	// Expires is when the client's right to read ends, if it does
	// ([Subscription.ExpireAt]). It is not in the query: who knows sets it.
	Expires time.Time
}

// RequestRules are what a server lays down for the requests it reads; the zero
// value of each is useful, but for Now.
type RequestRules struct {
	// Now is the log's clock, for since=10m.
	Now time.Time
	// MaxChannels is how many channels one connection may have (100).
	MaxChannels int
	// NoChannels: a connection may begin without any.
	NoChannels bool
	// Rewind is what a channel starts with when the client names no start; nil
	// or 0: live.
	Rewind func(channel string) int
	// LostCursor: a cursor that cannot be read starts as [StartLost], else it is
	// an error.
	LostCursor bool
}

// RequestError says which part of a request is wrong and what is wanted. It is
// the client's to mend.
type RequestError struct {
	Name   string // a query or header name
	Reason string
}

func (e *RequestError) Error() string { return e.Name + ": " + e.Reason }

// NotBuilt is the error for a name of the contract that this version does not
// serve: refused, never ignored.
func NotBuilt(name string) *RequestError {
	return &RequestError{name, "this version does not serve it yet"}
}

// Bounds and defaults of the contract.
const (
	DefaultHeartbeat   = 15 * time.Second
	MinHeartbeat       = 5 * time.Second
	MaxHeartbeat       = 120 * time.Second
	DefaultMaxChannels = 100
	MaxRewind          = 1_000_000
)

// cursorNames are the ways a cursor is spelt in a query: ours first, then those
// of EventSource polyfills, which cannot set a header.
var cursorNames = []string{
	"lastEventId", "last_event_id", "lastEventID", "Last-Event-ID", "Last-Event-Id", "evs_last_event_id",
}

// ParseRequest reads the query of a subscribing request and its Last-Event-ID
// header ("" for none). The error is a [*RequestError].
func ParseRequest(rawQuery, lastEventID string, rules RequestRules) (Request, error) {
	params := ParseParams(rawQuery)
	err := params.Check(append([]string{"channel", "rewind", "since", "heartbeat", "conflate"}, cursorNames...)...)
	if err != nil {
		return Request{}, err
	}
	if _, ok := params.Get("conflate"); ok {
		return Request{}, NotBuilt("conflate")
	}
	r := Request{Params: params}
	if r.Heartbeat, err = heartbeat(params); err != nil {
		return Request{}, err
	}
	names, err := channelNames(params, rules)
	if err != nil {
		return Request{}, err
	}
	fresh, err := freshStart(params, rules)
	if err != nil {
		return Request{}, err
	}
	resume, err := resumeStart(params, lastEventID, len(names), rules.LostCursor)
	if err != nil {
		return Request{}, err
	}
	for _, name := range names {
		start, ok := resume(name)
		if !ok {
			start = fresh(name)
		}
		r.Channels = append(r.Channels, Channel{Name: name, Start: start})
	}
	return r, nil
}

// channelNames are the channels asked for, each once, in the order given.
func channelNames(p Params, rules RequestRules) ([]string, error) {
	most := rules.MaxChannels
	if most <= 0 {
		most = DefaultMaxChannels
	}
	var names []string
	for _, name := range p.All("channel") {
		if err := stream.CheckChannel(name); err != nil {
			reason := err.Error()
			if strings.Contains(name, " ") {
				reason += "; in a query + is written %2B"
			}
			return nil, &RequestError{"channel", reason}
		}
		if slices.Contains(names, name) {
			continue
		}
		if len(names) == most {
			return nil, &RequestError{"channel", fmt.Sprintf("more than %d on one connection", most)}
		}
		names = append(names, name)
	}
	if names == nil && !rules.NoChannels {
		return nil, &RequestError{"channel", "want at least one, as in ?channel=news"}
	}
	return names, nil
}

// resumeStart is where the client's cursor puts a channel; ok is false for a
// channel it does not speak of, or when there is none.
func resumeStart(p Params, header string, channels int, lost bool) (func(string) (Start, bool), error) {
	name, text := "Last-Event-ID", header
	if text == "" {
		name, text = p.lastOf(cursorNames)
	}
	if text == "" {
		return func(string) (Start, bool) { return Start{}, false }, nil
	}
	c, err := stream.ParseCursor(text)
	switch {
	case err != nil && lost:
		return func(string) (Start, bool) { return StartLost(), true }, nil
	case err != nil:
		return nil, &RequestError{name, err.Error()}
	case channels > 1 && c.Bare():
		return nil, &RequestError{name, "an id of one channel says nothing about several: want the whole cursor, 1~…, as a server sent it"}
	}
	return func(channel string) (Start, bool) {
		pos, ok := c.Position(channel)
		return StartAfter(pos), ok
	}, nil
}

// freshStart is where a channel without a cursor starts.
func freshStart(p Params, rules RequestRules) (func(string) Start, error) {
	rewind, hasRewind := p.Get("rewind")
	since, hasSince := p.Get("since")
	switch {
	case hasRewind && hasSince:
		return nil, &RequestError{"rewind", "given together with since: want one of them"}
	case hasRewind:
		n, err := parseCount(rewind, MaxRewind)
		if err != nil {
			return nil, &RequestError{"rewind", err.Error()}
		}
		return func(string) Start { return startNewest(n) }, nil
	case hasSince:
		t, err := ParseSince(since, rules.Now)
		if err != nil {
			return nil, &RequestError{"since", err.Error()}
		}
		return func(string) Start { return StartSince(t) }, nil
	case rules.Rewind != nil:
		return func(channel string) Start { return startNewest(rules.Rewind(channel)) }, nil
	}
	return func(string) Start { return Start{} }, nil
}

func startNewest(n int) Start {
	if n <= 0 {
		return Start{}
	}
	return StartRewind(n)
}

func heartbeat(p Params) (time.Duration, error) {
	text, ok := p.Get("heartbeat")
	if !ok {
		return DefaultHeartbeat, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < MinHeartbeat || d > MaxHeartbeat {
		return 0, &RequestError{"heartbeat", fmt.Sprintf("want %v to %v, as in 15s", MinHeartbeat, MaxHeartbeat)}
	}
	return d, nil
}

// parseCount reads a decimal number from 0 to most.
func parseCount(s string, most int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > uint64(most) {
		return 0, fmt.Errorf("want a number from 0 to %d", most)
	}
	return int(n), nil
}

// lastMoment is the end of what RFC 3339 can write, in Unix milliseconds.
const lastMoment = 253402300799999

// ParseSince reads a moment: RFC 3339, Unix milliseconds, or a span before now
// such as 10m.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if ms, err := strconv.ParseUint(s, 10, 64); err == nil && ms <= lastMoment {
		return time.UnixMilli(int64(ms)), nil
	}
	// An unescaped + of a zone arrives as a space.
	if t, err := time.Parse(time.RFC3339Nano, strings.Replace(s, " ", "+", 1)); err == nil {
		return t, nil
	}
	if span, err := time.ParseDuration(s); err == nil && span >= 0 {
		return now.Add(-span), nil
	}
	return time.Time{}, fmt.Errorf("want a time (2026-01-31T12:00:00Z), Unix milliseconds or a span such as 10m")
}

// Params is a query, in the order it was written.
type Params struct {
	pairs [][2]string
	bad   []string // the names whose value has a % that is no escape
}

// ParseParams reads a raw query. Unlike [url.ParseQuery] it keeps the order among
// different names, since polyfills append a newer cursor under another name.
//
// A name or a value with a % that is no escape is left out, for it may be a
// stranger's; who reads a name asks [Params.Check] first.
func ParseParams(rawQuery string) Params {
	var p Params
	for part := range strings.SplitSeq(rawQuery, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		n, err1 := url.QueryUnescape(name)
		v, err2 := url.QueryUnescape(value)
		switch {
		case err1 != nil: // no name of ours
		case err2 != nil:
			p.bad = append(p.bad, n)
		default:
			p.pairs = append(p.pairs, [2]string{n, v})
		}
	}
	return p
}

// Check is the error, a [*RequestError], of a value under one of the names that
// could not be read.
func (p Params) Check(names ...string) error {
	for _, name := range p.bad {
		if slices.Contains(names, name) {
			return &RequestError{name, "a % must be followed by two hex digits"}
		}
	}
	return nil
}

// Get is the last value given under name; ok is false when there is none.
func (p Params) Get(name string) (value string, ok bool) {
	for _, pair := range slices.Backward(p.pairs) {
		if pair[0] == name {
			return pair[1], true
		}
	}
	return "", false
}

// All is every value given under name, in order.
func (p Params) All(name string) []string {
	var all []string
	for _, pair := range p.pairs {
		if pair[0] == name {
			all = append(all, pair[1])
		}
	}
	return all
}

// lastOf is the last value that is not empty under any of the names.
func (p Params) lastOf(names []string) (name, value string) {
	for _, pair := range slices.Backward(p.pairs) {
		if pair[1] != "" && slices.Contains(names, pair[0]) {
			return pair[0], pair[1]
		}
	}
	return "", ""
}
