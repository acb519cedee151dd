package logtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"rejoin/stream"
)

// Check is one promise and how to see it kept. It makes its own store and
// returns nil or what was broken.
type Check struct {
	Name string
	Run  func(ctx context.Context, new New) error
	// Hurts: it needs a store with [Faults].
	Hurts bool
}

// Checks are all of the suite's, those that run in a moment first.
func Checks() []Check {
	return slices.Concat(appendChecks, endChecks, manyChecks, readChecks, faultChecks, sessionChecks)
}

// checkTimeout bounds one check. They take milliseconds to a few seconds.
const checkTimeout = 60 * time.Second

// Run runs every check that the engine's stores can take.
func Run(t *testing.T, new New) {
	hurts, err := canHurt(new)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Checks() {
		if c.Hurts && !hurts {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
			defer cancel()
			if err := c.Run(ctx, new); err != nil {
				t.Error(err)
			}
		})
	}
}

func canHurt(new New) (bool, error) {
	s, err := new(Options{})
	if err != nil {
		return false, err
	}
	return s.Faults() != nil, s.Close()
}

// with makes a store and opens n clients of it for f, and closes all.
func with(new New, o Options, n int, f func(s Store, l []stream.Log) error) (err error) {
	s, err := new(o)
	if err != nil {
		return err
	}
	defer func() { err = first(err, s.Close()) }()
	var logs []stream.Log
	for range n {
		l, err := s.Open()
		if err != nil {
			return err
		}
		defer func() { err = first(err, l.Close()) }()
		logs = append(logs, l)
	}
	return f(s, logs)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// publish appends payloads to a channel and returns their ids.
func publish(ctx context.Context, l stream.Log, channel string, payloads ...string) (ids []stream.ID, err error) {
	for _, p := range payloads {
		a, err := l.Append(ctx, stream.Message{Channel: channel, Payload: p})
		if err != nil {
			return ids, err
		}
		ids = append(ids, a.ID)
	}
	return ids, nil
}

// numbered is "1" … "n".
func numbered(n int) (s []string) {
	for i := range n {
		s = append(s, fmt.Sprint(i+1))
	}
	return s
}

// payloads are the texts of a page.
func payloads(p stream.Page) []string {
	s := []string{}
	for _, e := range p.Entries {
		s = append(s, e.Payload)
	}
	return s
}

// same says how got differs from want, nil if it does not. They are compared as
// they print, so a length may be compared with a constant.
func same(what string, got, want any) error {
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		return fmt.Errorf("%s: %s, want %s", what, g, w)
	}
	return nil
}

// verdict prints a verdict with its gap.
func verdict(v stream.Verdict) string {
	s := fmt.Sprintf("from %v free %v", v.From, v.Free)
	if v.Gap != nil {
		s = fmt.Sprintf("%+v, %s", *v.Gap, s)
	}
	return s
}
