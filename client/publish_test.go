package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/client"
	"rejoin/stream"
)

func TestPublish(t *testing.T) {
	s := newServer(t)
	c := newClient(t, client.Options{URL: s.url()})
	for _, payload := range []string{"", "hi", "a\r\nb\u2028\x00ä😀\n"} {
		done, err := c.Publish(t.Context(), "a~b:c+d@e=f", payload, &client.PublishOptions{Event: "e ä&", Key: "k+/?"})
		require.NoError(t, err)
		page, err := s.log.Read(t.Context(), stream.Query{Channel: "a~b:c+d@e=f", After: stream.ID{MS: done.ID.MS, N: done.ID.N - 1}, Limit: 1})
		require.NoError(t, err)
		e := page.Entries[0]
		assert.Equal(t, []string{done.ID.String(), payload, "e ä&", "k+/?"}, []string{e.ID.String(), e.Payload, e.Event, e.Key})
	}

	key := &client.PublishOptions{IdempotencyKey: "x"}
	first, err := c.Publish(t.Context(), "news", "once", key)
	require.NoError(t, err)
	again, err := c.Publish(t.Context(), "news", "once", key)
	require.NoError(t, err)
	assert.Equal(t, client.Published{Channel: "news", ID: first.ID}, first)
	assert.Equal(t, client.Published{Channel: "news", ID: first.ID, Replayed: true}, again)
}

// What trying again cannot mend comes back at once, as the server said it.
func TestPublishRefused(t *testing.T) {
	for status, code := range map[int]string{
		400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 409: "channel_ended",
		413: "payload_too_large", 422: "idempotency_conflict", 500: "log_broken",
	} {
		f := &fake{t: t, answers: []answer{refuses(status, code)}}
		_, err := f.client(client.Options{}).Publish(t.Context(), "news", "hi", nil)
		said, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%d: %v", status, err)
		assert.Equal(t, &client.Error{Status: status, Code: code, Detail: "the detail"}, said)
		failed, ok := errors.AsType[*client.PublishError](err)
		require.True(t, ok)
		assert.Equal(t, 1, failed.Attempts)
		assert.False(t, failed.Unknown)
		assert.Equal(t, fmt.Sprintf("publish to news: %d %s: the detail; nothing was appended", status, code), err.Error())
		assert.Len(t, f.requests, 1)
	}
}

func TestPublishOnARealServerIsRefused(t *testing.T) {
	s := newServer(t)
	c := newClient(t, client.Options{URL: s.url()})
	key := &client.PublishOptions{IdempotencyKey: "x"}
	_, err := c.Publish(t.Context(), "news", "one", key)
	require.NoError(t, err)
	for want, err := range map[string]error{
		client.CodeConflict: second(c.Publish(t.Context(), "news", "two", key)),
		client.CodeTooLarge: second(c.Publish(t.Context(), "news", strings.Repeat("x", 2<<20), nil)),
		"bad_request":       second(c.Publish(t.Context(), "news", "x", &client.PublishOptions{Event: "rejoin.x"})),
	} {
		said, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, want, said.Code)
	}
	for _, err := range []error{
		second(c.Publish(t.Context(), "a/b", "x", nil)),
		second(c.Publish(t.Context(), "news", "\xff", nil)),
		second(c.Publish(t.Context(), "news", "x", &client.PublishOptions{IdempotencyKey: "a\nb"})),
	} {
		said, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, 400, said.Status)
	}
}

func second[T any](_ T, err error) error { return err }

// shelf is a log behind a fake, which appends a key once.
type shelf struct {
	mu   sync.Mutex
	keys map[string]int
	got  []string
}

func (s *shelf) put(r *http.Request, body string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string]int{}
	}
	key := r.Header.Get("Idempotency-Key")
	if s.keys[key] == 0 {
		s.got = append(s.got, body)
		s.keys[key] = len(s.got)
	}
	return s.keys[key]
}

// acks appends and says so.
func (s *shelf) acks(f *fake) answer {
	return func(r *http.Request) (*http.Response, error) {
		n := s.put(r, f.newest())
		return says(201, fmt.Sprintf(`{"id":"%d-%d","channel":"news"}`, 1000+n, n))(r)
	}
}

// appendsThen appends, but answers something else.
func (s *shelf) appendsThen(f *fake, then answer) answer {
	return func(r *http.Request) (*http.Response, error) {
		s.put(r, f.newest())
		return then(r)
	}
}

// newest is the body of the newest request.
func (f *fake) newest() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1].body
}

// Whatever an outage answers, the message is tried again with its key, and
// appended once.
// Holds G118.
func TestPublishThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := &fake{t: t}, &shelf{}
		f.answers = []answer{
			refused,
			refuses(503, "log_unavailable", "Retry-After", "3"),
			says(502, "<html>"),
			log.appendsThen(f, refuses(504, "unknown_outcome")),
			log.appendsThen(f, cut),
			hangs,
			refuses(429, "too_many", "Retry-After", "7"),
			refuses(408, "request_timeout"),
			refuses(507, "log_full"),
			log.acks(f),
		}
		var heard []time.Duration
		c := f.client(client.Options{OnRetry: func(err error, wait time.Duration) {
			assert.Error(t, err)
			heard = append(heard, wait)
		}})
		done, err := c.Publish(t.Context(), "news", "hi", nil)
		require.NoError(t, err)
		assert.Equal(t, stream.ID{MS: 1001, N: 1}, done.ID)
		assert.Equal(t, []string{"hi"}, log.got)
		require.Len(t, f.requests, 10)
		for i, r := range f.requests {
			assert.Equal(t, f.requests[0].Header.Get("Idempotency-Key"), r.Header.Get("Idempotency-Key"))
			assert.Equal(t, "hi", r.body)
			if i == 0 {
				continue
			}
			wait := heard[i-1]
			assert.LessOrEqual(t, wait, 17*time.Second)
			if i != 6 { // which had hung
				assert.Equal(t, wait, r.at)
			}
		}
		assert.GreaterOrEqual(t, heard[1], 3*time.Second, "Retry-After")
		assert.GreaterOrEqual(t, heard[6], 7*time.Second, "Retry-After")
		assert.GreaterOrEqual(t, f.requests[6].at, 10*time.Second, "Timeout")
	})
}

// A publish that is given up says whether the message may be in the log.
func TestPublishGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		answers []answer
		unknown bool
		want    string
	}{
		"refused":     {[]answer{refused}, false, "connection refused"},
		"unavailable": {[]answer{refuses(503, "log_unavailable")}, false, "503 log_unavailable"},
		"unknown":     {[]answer{refuses(504, "unknown_outcome")}, true, "504 unknown_outcome"},
		"a proxy's":   {[]answer{says(503, "<html>")}, true, "503: Service Unavailable"},
		"cut":         {[]answer{cut}, true, "unexpected EOF"},
		"hangs":       {[]answer{hangs}, true, "no answer within 10s"},
		"once unknown, then refused": {
			[]answer{refuses(504, "unknown_outcome"), refused}, true, "connection refused"},
		"once unknown, then ended": {
			[]answer{refuses(504, "unknown_outcome"), refuses(409, "channel_ended")}, true, "409 channel_ended"},
		"an answer cut off": {[]answer{says(201, `{"id":"1-`)}, true, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{t: t, answers: c.answers}
				begun := time.Now()
				_, err := f.client(client.Options{RetryFor: time.Minute}).Publish(t.Context(), "news", "hi", nil)
				failed, ok := errors.AsType[*client.PublishError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, c.unknown, failed.Unknown)
				assert.Equal(t, f.requests[0].Header.Get("Idempotency-Key"), failed.IdempotencyKey)
				assert.Equal(t, len(f.requests), failed.Attempts)
				assert.ErrorContains(t, err, c.want)
				if c.unknown {
					assert.ErrorContains(t, err, "repeat it with the idempotency key "+failed.IdempotencyKey)
				} else {
					assert.ErrorContains(t, err, "nothing was appended")
				}
				if !strings.Contains(name, "ended") {
					assert.Equal(t, time.Minute, time.Since(begun))
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Greater(t, failed.Attempts, 2)
					assert.Less(t, failed.Attempts, 200)
				}
			})
		})
	}
}

func TestPublishEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{hangs}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := f.client(client.Options{}).Publish(ctx, "news", "hi", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		failed, _ := errors.AsType[*client.PublishError](err)
		assert.True(t, failed.Unknown)
		assert.Len(t, f.requests, 1)
	})
}

// With several servers the next one is tried at once, and the one that answered
// is asked first from then on.
func TestPublishSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := &fake{t: t}, &shelf{}
		f.answers = []answer{refused, log.appendsThen(f, cut), refused, refused, log.acks(f)}
		c := f.client(client.Options{URLs: []string{"http://one", "http://two", "http://three/prefix/"}})
		_, err := c.Publish(t.Context(), "news", "hi", nil)
		require.NoError(t, err)
		_, err = c.Publish(t.Context(), "news", "ho", nil)
		require.NoError(t, err)
		var asked []string
		for i, r := range f.requests {
			asked = append(asked, r.URL.Host+r.URL.Path)
			if i != 3 {
				assert.Zero(t, r.at)
			}
		}
		assert.Equal(t, []string{
			"one/v1/channels/news/messages", "two/v1/channels/news/messages", "three/prefix/v1/channels/news/messages",
			"one/v1/channels/news/messages", "two/v1/channels/news/messages", "two/v1/channels/news/messages",
		}, asked)
		assert.Equal(t, []string{"hi", "ho"}, log.got)
	})
}

// Concurrent publishes on a channel arrive in the order of their calls, through
// an outage that answers at random.
// Holds G118.
func TestPublishKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		f, log := &fake{t: t}, &shelf{}
		for i := range 400 {
			f.answers = append(f.answers, []answer{
				refused, refuses(503, "log_unavailable"), log.appendsThen(f, refuses(504, "unknown_outcome")), log.acks(f),
			}[i*7%4])
		}
		f.answers = append(f.answers, log.acks(f))
		c := f.client(client.Options{RetryFor: time.Hour})
		var all sync.WaitGroup
		var want []string
		for i := range n {
			payload := fmt.Sprint(i)
			want = append(want, payload)
			all.Go(func() {
				_, err := c.Publish(t.Context(), "news", payload, nil)
				assert.NoError(t, err)
			})
			synctest.Wait() // it stands in line
		}
		all.Wait()
		assert.Equal(t, want, log.got)
	})
}

// Publishes under way hold a bounded number of bytes; the rest wait, and say so
// if they wait in vain.
func TestPublishBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{refused}}
		c := f.client(client.Options{BufferBytes: 10_000})
		_, err := c.Publish(t.Context(), "news", strings.Repeat("x", 10_000), nil)
		require.ErrorIs(t, err, client.ErrBufferFull)
		assert.Empty(t, f.requests)

		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				_, err := c.Publish(ctx, fmt.Sprint("channel", i), strings.Repeat("x", 4000), nil)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		asked := len(f.asked())
		_, err = c.Publish(short, "another", strings.Repeat("x", 4000), nil)
		require.ErrorIs(t, err, client.ErrBufferFull)
		failed, _ := errors.AsType[*client.PublishError](err)
		assert.Zero(t, failed.Attempts)
		assert.False(t, failed.Unknown)
		for _, r := range f.asked()[asked:] {
			assert.NotContains(t, r.URL.Path, "another")
		}
		cancel()
		all.Wait()
		f.mu.Lock()
		f.answers = []answer{says(201, `{"id":"1-1"}`)}
		f.mu.Unlock()
		_, err = c.Publish(t.Context(), "another", strings.Repeat("x", 4000), nil)
		require.NoError(t, err)
	})
}

// A real server that is killed while messages are published: each one arrives
// once, in order.
// Holds G118.
func TestPublishAcrossAKilledServer(t *testing.T) {
	const n = 300
	s := newServer(t)
	c := newClient(t, client.Options{URL: s.url()})
	ctx := within(t, patience)
	published := make(chan error, 1)
	half := make(chan struct{})
	go func() {
		for i := range n {
			if i == n/2 {
				close(half)
			}
			if _, err := c.Publish(ctx, "news", fmt.Sprint(i), nil); err != nil {
				published <- err
				return
			}
		}
		published <- nil
	}()
	<-half
	s.kill()
	require.NoError(t, s.start())
	require.NoError(t, <-published)
	page, err := s.log.Read(ctx, stream.Query{Channel: "news", Limit: 2 * n})
	require.NoError(t, err)
	require.Len(t, page.Entries, n)
	for i, e := range page.Entries {
		require.Equal(t, fmt.Sprint(i), e.Payload)
	}
}

func TestToken(t *testing.T) {
	f := &fake{t: t, answers: []answer{says(201, `{"id":"1-1"}`)}}
	_, err := f.client(client.Options{Token: "secret"}).Publish(t.Context(), "news", "hi", nil)
	require.NoError(t, err)
	assert.Equal(t, "Bearer secret", f.requests[0].Header.Get("Authorization"))

	tokens := []string{"one", "two"}
	c := f.client(client.Options{TokenFunc: func(context.Context) (string, error) {
		if len(tokens) == 0 {
			return "", errors.New("no more")
		}
		token := tokens[0]
		tokens = tokens[1:]
		return token, nil
	}})
	for range 2 {
		_, err = c.Publish(t.Context(), "news", "hi", nil)
		require.NoError(t, err)
	}
	assert.Equal(t, "Bearer two", f.requests[2].Header.Get("Authorization"))
	_, err = c.Publish(t.Context(), "news", "hi", nil)
	require.ErrorContains(t, err, "no token: no more; nothing was appended")
	assert.Len(t, f.requests, 3)
}

func TestOptionsThatWillNotDo(t *testing.T) {
	for want, o := range map[string]client.Options{
		"does not read as http": {URL: "localhost:8080"},
		"want one of them":      {URL: "http://a", URLs: []string{"http://b"}},
		"a space, a line break": {Token: "secret\n"},
		"Token and TokenFunc":   {Token: "a", TokenFunc: func(context.Context) (string, error) { return "", nil }},
	} {
		_, err := client.New(o)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
	}
}

// closing counts the bodies that were not closed.
type closing struct {
	io.ReadCloser
	open *int
}

func (c closing) Close() error {
	*c.open--
	return c.ReadCloser.Close()
}

func TestAnswersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := 0
		counted := func(a answer) answer {
			return func(r *http.Request) (*http.Response, error) {
				resp, err := a(r)
				if err == nil {
					open++
					resp.Body = closing{resp.Body, &open}
				}
				return resp, err
			}
		}
		f := &fake{t: t, answers: []answer{
			counted(refuses(503, "log_unavailable")), counted(says(502, "<html>")), counted(says(201, `{"id":"1-1"}`)),
			counted(says(500, strings.Repeat("x", 1<<20))), counted(sends(retryLine, readyFrame)), counted(says(204, "")),
		}}
		c := f.client(client.Options{})
		_, err := c.Publish(t.Context(), "news", "hi", nil)
		require.NoError(t, err)
		for range c.Subscribe(t.Context(), client.SubscribeOptions{Channels: []string{"news"}}) {
		}
		assert.Len(t, f.requests, 6)
		assert.Zero(t, open)
	})
}
