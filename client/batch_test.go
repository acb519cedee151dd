package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/client"
	"rejoin/stream"
)

func TestPublishBatch(t *testing.T) {
	s := newServer(t)
	c := newClient(t, client.Options{URL: s.url()})
	ctx := within(t, patience)
	var messages []client.Publication
	for i := range 250 {
		messages = append(messages, client.Publication{Channel: fmt.Sprint("channel", i%3), Payload: fmt.Sprint(i), Event: "e", Key: "k"})
	}
	outcomes, err := c.PublishBatch(ctx, messages)
	require.NoError(t, err)
	require.Len(t, outcomes, 250)
	n := map[string]int{}
	for i, o := range outcomes {
		require.NoError(t, o.Err)
		require.Equal(t, messages[i].Channel, o.Channel)
		assert.Empty(t, messages[i].IdempotencyKey, "the caller's messages are its own")
		page, err := s.log.Read(ctx, stream.Query{Channel: o.Channel, After: stream.ID{MS: o.ID.MS, N: o.ID.N - 1}, Limit: 1})
		require.NoError(t, err)
		e := page.Entries[0]
		n[o.Channel]++
		require.Equal(t, []any{uint64(n[o.Channel]), o.ID, fmt.Sprint(i), "e", "k"}, []any{e.ID.N, e.ID, e.Payload, e.Event, e.Key})
	}

	empty, err := c.PublishBatch(ctx, nil)
	assert.Empty(t, empty)
	assert.NoError(t, err)
}

// Each message has an outcome of its own; one that is refused stops no other.
func TestPublishBatchRefused(t *testing.T) {
	s := newServer(t)
	c := newClient(t, client.Options{URL: s.url()})
	ctx := within(t, patience)
	_, err := s.log.Append(ctx, stream.Message{Channel: "over", End: stream.EndAlone})
	require.NoError(t, err)
	outcomes, err := c.PublishBatch(ctx, []client.Publication{
		{Channel: "a", Payload: "1"},
		{Channel: "a/b", Payload: "2"},
		{Channel: "over", Payload: "3"},
		{Channel: "a", Payload: strings.Repeat("x", 2<<20)},
		{Channel: "a", Payload: "5", Event: "rejoin.x"},
		{Channel: "a", Payload: "\xff"},
		{Channel: "a", Payload: "7", IdempotencyKey: "k"},
		{Channel: "a", Payload: "8", IdempotencyKey: "k"},
		{Channel: "a", Payload: "7", IdempotencyKey: "k"},
	})
	require.ErrorContains(t, err, "6 of 9 messages were not published; the first: publish to a/b")
	var got []string
	for _, o := range outcomes {
		word := fmt.Sprint(o.ID.N)
		if said, ok := errors.AsType[*client.Error](o.Err); ok {
			word = said.Code
		}
		got = append(got, word)
		if failed, ok := errors.AsType[*client.PublishError](o.Err); ok {
			assert.False(t, failed.Unknown)
		}
	}
	assert.Equal(t, []string{
		"1", "bad_request", "channel_ended", "payload_too_large", "bad_request", "bad_request", "2", "idempotency_conflict", "2",
	}, got)
	assert.True(t, outcomes[8].Replayed)
}

// batchOf is what a request asks for.
func batchOf(t *testing.T, body string) []client.Publication {
	var in struct{ Messages []client.Publication }
	require.NoError(t, json.Unmarshal([]byte(body), &in))
	return in.Messages
}

// results answers a batch, with one word for each of its messages.
func (f *fake) results(words ...string) answer {
	return func(r *http.Request) (*http.Response, error) {
		messages := batchOf(f.t, f.newest())
		require.Len(f.t, messages, len(words))
		var parts []string
		for i, word := range words {
			switch word {
			case "ok":
				parts = append(parts, fmt.Sprintf(`{"id":"1-%s","channel":%q}`, messages[i].Payload, messages[i].Channel))
			case "again":
				parts = append(parts, fmt.Sprintf(`{"id":"1-%s","channel":%q,"replayed":true}`, messages[i].Payload, messages[i].Channel))
			default:
				status, code, _ := strings.Cut(word, " ")
				parts = append(parts, fmt.Sprintf(`{"channel":%q,"error":{"status":%s,"code":%q,"detail":"d"}}`, messages[i].Channel, status, code))
			}
		}
		return says(200, `{"results":[`+strings.Join(parts, ",")+`]}`, "Retry-After", "2")(r)
	}
}

// Only what can be tried again is, with its own key.
func TestPublishBatchThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t}
		f.answers = []answer{
			refused, refuses(503, "log_unavailable"), says(502, ""),
			f.results("ok", "504 unknown_outcome", "503 not_attempted", "413 payload_too_large", "503 log_unavailable"),
			cut,
			f.results("again", "ok", "422 idempotency_conflict"),
		}
		outcomes, err := f.client(client.Options{}).PublishBatch(t.Context(), []client.Publication{
			{Channel: "a", Payload: "1"}, {Channel: "a", Payload: "2"}, {Channel: "a", Payload: "3"}, {Channel: "b", Payload: "4"}, {Channel: "c", Payload: "5"},
		})
		require.ErrorContains(t, err, "2 of 5 messages were not published")
		var got []string
		for _, o := range outcomes {
			word := fmt.Sprint(o.Channel, o.ID.N, o.Replayed)
			if failed, ok := errors.AsType[*client.PublishError](o.Err); ok {
				word = fmt.Sprint(o.Channel, " unknown ", failed.Unknown, " attempts ", failed.Attempts)
			}
			got = append(got, word)
		}
		// The 502 before leaves each of them in doubt.
		assert.Equal(t, []string{"a1 false", "a2 true", "a3 false", "b unknown true attempts 4", "c unknown true attempts 6"}, got)
		require.Len(t, f.requests, 6)
		first, last := batchOf(t, f.requests[0].body), batchOf(t, f.requests[5].body)
		assert.Len(t, first, 5)
		require.Len(t, last, 3)
		assert.Equal(t, []client.Publication{first[1], first[2], first[4]}, last)
		assert.GreaterOrEqual(t, f.requests[4].at, 2*time.Second, "Retry-After")
	})
}

func TestPublishBatchGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t}
		f.answers = []answer{f.results("504 unknown_outcome", "503 not_attempted", "ok"), refused}
		outcomes, err := f.client(client.Options{RetryFor: time.Minute}).PublishBatch(t.Context(), []client.Publication{
			{Channel: "a", Payload: "1"}, {Channel: "a", Payload: "2"}, {Channel: "b", Payload: "3"},
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "connection refused")
		for i, unknown := range []bool{true, false} {
			failed, ok := errors.AsType[*client.PublishError](outcomes[i].Err)
			require.True(t, ok)
			assert.Equal(t, []any{unknown, "a"}, []any{failed.Unknown, failed.Channel})
			assert.NotEmpty(t, failed.IdempotencyKey)
		}
		assert.NoError(t, outcomes[2].Err)
	})
	f := &fake{t: t, answers: []answer{refuses(401, "unauthorized")}}
	outcomes, err := f.client(client.Options{}).PublishBatch(t.Context(), []client.Publication{{Channel: "a"}, {Channel: "b"}})
	require.ErrorContains(t, err, "2 of 2")
	for _, o := range outcomes {
		said, ok := errors.AsType[*client.Error](o.Err)
		require.True(t, ok)
		assert.Equal(t, 401, said.Status)
	}
	f = &fake{t: t, answers: []answer{says(200, `{"results":[]}`)}}
	_, err = f.client(client.Options{}).PublishBatch(t.Context(), []client.Publication{{Channel: "a"}})
	require.ErrorIs(t, err, client.ErrProtocol)
}

// A batch and single publishes on its channels keep their order.
// Holds G118.
func TestPublishBatchKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t}
		hold := make(chan struct{})
		f.answers = []answer{
			func(r *http.Request) (*http.Response, error) { <-hold; return f.results("ok", "ok")(r) },
			says(201, `{"id":"1-1"}`),
		}
		c := f.client(client.Options{})
		done := make(chan error, 2)
		go func() {
			_, err := c.PublishBatch(t.Context(), []client.Publication{{Channel: "a", Payload: "1"}, {Channel: "b", Payload: "2"}})
			done <- err
		}()
		synctest.Wait()
		go func() {
			_, err := c.Publish(t.Context(), "b", "3", nil)
			done <- err
		}()
		synctest.Wait()
		assert.Len(t, f.asked(), 1)
		close(hold)
		assert.NoError(t, <-done)
		assert.NoError(t, <-done)
		assert.Len(t, f.asked(), 2)
	})
}

// Large batches go in several requests, each of bounded size.
func TestPublishBatchIsCut(t *testing.T) {
	f := &fake{t: t}
	var sizes []int
	f.answers = []answer{func(r *http.Request) (*http.Response, error) {
		n := len(batchOf(t, f.newest()))
		sizes = append(sizes, n)
		return says(200, `{"results":[`+strings.Repeat(`{"id":"1-1","channel":"a"},`, n-1)+`{"id":"1-1","channel":"a"}]}`)(r)
	}}
	var messages []client.Publication
	for range 130 {
		messages = append(messages, client.Publication{Channel: "a", Payload: "1"})
	}
	for range 3 {
		messages = append(messages, client.Publication{Channel: "a", Payload: strings.Repeat("1", 300_000)})
	}
	c := f.client(client.Options{BufferBytes: 1 << 20})
	_, err := c.PublishBatch(t.Context(), messages)
	require.NoError(t, err)
	assert.Equal(t, []int{100, 31, 1, 1}, sizes)
}
