package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

// page is an answer of history.
type page struct {
	Messages []struct {
		Channel, ID, Time, Payload, Event, Key string
	}
	Cursor string
	Gap    *struct {
		Channel, After, Reason string
		Next                   *string
		Missed                 *uint64
	}
	More bool
}

func (w *world) history(channel, query string) page {
	w.t.Helper()
	a := w.do("GET", "/v1/channels/"+channel+"/messages?"+query, "")
	require.Equal(w.t, 200, a.StatusCode, a.body)
	require.Equal(w.t, "application/json", a.Header.Get("Content-Type"))
	require.Equal(w.t, "no-store", a.Header.Get("Cache-Control"))
	for _, field := range []string{`"messages":[`, `"cursor":"`, `"gap":`, `"more":`} {
		require.Contains(w.t, a.body, field)
	}
	var p page
	require.NoError(w.t, json.Unmarshal([]byte(a.body), &p), a.body)
	return p
}

func (p page) payloads() string {
	var all []string
	for _, m := range p.Messages {
		all = append(all, m.Payload)
	}
	return strings.Join(all, " ")
}

// Holds G52.
func TestHistory(t *testing.T) {
	w := newWorld(t, Options{})
	empty := w.history("news", "")
	require.Equal(t, page{Messages: empty.Messages, Cursor: "1-0"}, empty, "before the first")
	require.Empty(t, empty.Messages)

	var ids []stream.ID
	for i := range 7 {
		ids = append(ids, w.publish("news", strconv.Itoa(i)))
	}
	p := w.history("news", "")
	require.Equal(t, "0 1 2 3 4 5 6", p.payloads())
	require.Equal(t, ids[6].String(), p.Cursor)
	require.False(t, p.More)
	require.Nil(t, p.Gap)
	m := p.Messages[3]
	require.Equal(t, []string{"news", ids[3].String(), ids[3].Time().Format("2006-01-02T15:04:05.000Z")}, []string{m.Channel, m.ID, m.Time})

	p = w.history("news", "limit=3&unknown=x")
	require.Equal(t, "0 1 2", p.payloads())
	require.True(t, p.More)
	p = w.history("news", "limit=3&after="+p.Cursor)
	require.Equal(t, "3 4 5", p.payloads())
	p = w.history("news", "limit=3&after="+p.Cursor)
	require.Equal(t, "6", p.payloads())
	require.False(t, p.More)
	end := w.history("news", "after="+p.Cursor)
	require.Empty(t, end.Messages)
	require.Equal(t, p.Cursor, end.Cursor)
	require.Nil(t, end.Gap)

	require.Equal(t, "0 1 2 3 4 5 6", w.history("news", "after="+empty.Cursor).payloads(), "the cursor before the first is one")
	require.Nil(t, w.history("news", "after=1-0").Gap)
	for _, earliest := range []string{"earliest", "0", "0-0", ""} {
		require.Equal(t, "0 1 2 3 4 5 6", w.history("news", "after="+earliest).payloads())
	}
	both := stream.NewPositions([]string{"news", "other"})
	both.Set("news", ids[4])
	require.Equal(t, "5 6", w.history("news", "after="+both.String()).payloads(), "a cursor of several channels")
	require.Equal(t, "0 1 2 3 4 5 6", w.history("news", "after=1~").payloads(), "one that does not speak of this channel")
}

func TestHistorySince(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.publish("a", "x")
	at := id.Time()
	require.Equal(t, "x", w.history("a", "since=1h").payloads())
	require.Equal(t, "x", w.history("a", "since="+strconv.FormatInt(at.UnixMilli(), 10)).payloads())
	require.Equal(t, "x", w.history("a", "since="+at.Format("2006-01-02T15:04:05.000Z")).payloads())
	later := w.history("a", "since="+strconv.FormatInt(at.UnixMilli()+1, 10))
	require.Empty(t, later.Messages)
	require.Equal(t, id.String(), later.Cursor, "the end, where nothing is missed")
	require.Nil(t, later.Gap)
	require.Empty(t, w.history("a", "since=1h&after="+id.String()).Messages, "a cursor says more than a time")
}

// Holds G23, G53.
func TestHistoryTellsGaps(t *testing.T) {
	log := memlog.New(memlog.Options{Retention: func(string) stream.Retention {
		return stream.Retention{MaxMessages: 3, MaxAge: time.Hour, ChannelTTL: time.Hour}
	}})
	w := newWorldOn(t, log, Options{})
	var ids []stream.ID
	for i := range 6 {
		ids = append(ids, w.publish("a", strconv.Itoa(i)))
	}
	text := func(id stream.ID) *string { s := id.String(); return &s }
	count := func(n uint64) *uint64 { return &n }

	p := w.history("a", "after="+ids[0].String())
	require.Equal(t, "3 4 5", p.payloads())
	require.Equal(t, "trimmed", p.Gap.Reason)
	require.Equal(t, ids[0].String(), p.Gap.After)
	require.Equal(t, text(ids[3]), p.Gap.Next)
	require.Equal(t, count(2), p.Gap.Missed)
	require.Nil(t, w.history("a", "after="+ids[2].String()).Gap, "just before the oldest: nothing is missing")
	require.Equal(t, count(3), w.history("a", "after=1-0").Gap.Missed)
	require.Nil(t, w.history("a", "after=earliest").Gap)

	foreign := stream.ID{MS: ids[4].MS + 1000, N: 99}
	p = w.history("a", "limit=2&after="+foreign.String())
	require.Equal(t, "reset", p.Gap.Reason)
	require.Nil(t, p.Gap.Missed)
	require.Equal(t, text(ids[3]), p.Gap.Next)
	require.Equal(t, "3 4", p.payloads(), "everything retained, from the oldest")
	require.True(t, p.More)
	require.Equal(t, "5", w.history("a", "after="+p.Cursor).payloads())

	require.NoError(t, w.log.Delete(t.Context(), "a"))
	p = w.history("a", "after="+ids[3].String())
	require.Empty(t, p.Messages)
	require.Equal(t, "trimmed", p.Gap.Reason)
	require.Nil(t, p.Gap.Next)
	require.Equal(t, count(2), p.Gap.Missed)
	require.Equal(t, ids[5].String(), p.Cursor)
	require.Nil(t, w.history("a", "after="+p.Cursor).Gap, "a gap is told once")
	require.Equal(t, ids[5].String(), w.history("a", "").Cursor)
	require.Contains(t, w.request("GET", w.admin+"/metrics", http.NoBody).body, `rejoin_gaps_total{reason="trimmed"} 3`)
}

// A page is at most 1 MiB, one message at least, and what does not fit is more.
// Holds G52.
func TestHistoryBytes(t *testing.T) {
	w := newWorld(t, Options{PayloadLimit: func(string) int { return 4 << 20 }})
	for range 5 {
		w.publish("a", strings.Repeat("x", 300<<10))
	}
	a := w.do("GET", "/v1/channels/a/messages", "")
	require.LessOrEqual(t, len(a.body), 1<<20)
	p := w.history("a", "")
	require.Len(t, p.Messages, 3)
	require.True(t, p.More)
	p = w.history("a", "after="+p.Cursor)
	require.Len(t, p.Messages, 2)
	require.False(t, p.More)

	w.publish("b", strings.Repeat("\x01", 400<<10)) // six bytes each in JSON
	w.publish("b", "small")
	p = w.history("b", "")
	require.Len(t, p.Messages, 1, "alone above the bound")
	require.True(t, p.More)
	require.Equal(t, "small", w.history("b", "after="+p.Cursor).payloads())
}

// The end of a channel is behind its last message in the chain, and no message.
func TestHistoryOfAnEndedChannel(t *testing.T) {
	w := newWorld(t, Options{})
	w.publish("a", "last")
	end, err := w.log.Append(t.Context(), stream.Message{Channel: "a", End: stream.EndAlone})
	require.NoError(t, err)
	p := w.history("a", "")
	require.Equal(t, "last", p.payloads())
	require.Equal(t, end.ID.String(), p.Cursor)
	require.False(t, p.More)
	w.do("POST", "/v1/channels/a/messages", "x").problem(t, 409, "channel_ended")
}

// A page and a stream agree on every cursor.
// Holds G26, G52.
func TestHistoryCursorsResumeStreams(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 5 {
		w.publish("a", fmt.Sprint(i))
	}
	p := w.history("a", "limit=2")
	_, in := w.events("channel=a&lastEventId=" + p.Cursor)
	until(t, in, "event: rejoin.ready")
	until(t, in, "id: ")
	require.Equal(t, "2", until(t, in, "data: "))
}

// Downwards: the page just before an id, or the newest, in either order.
// Holds G88.
func TestHistoryBackwards(t *testing.T) {
	w := newWorld(t, Options{})
	empty := w.history("a", "order=desc")
	require.Empty(t, empty.Messages)
	require.Equal(t, "1-0", empty.Cursor)
	require.False(t, empty.More)
	var ids []stream.ID
	for i := range 7 {
		ids = append(ids, w.publish("a", strconv.Itoa(i)))
	}
	id := func(i int) string { return ids[i].String() }
	for query, want := range map[string]struct {
		payloads string
		more     bool
		cursor   string
	}{
		"order=desc":                                                 {"6 5 4 3 2 1 0", false, id(6)},
		"order=desc&limit=3":                                         {"6 5 4", true, id(6)},
		"order=asc&limit=3":                                          {"0 1 2", true, id(2)},
		"order=desc&limit=7":                                         {"6 5 4 3 2 1 0", false, id(6)},
		"limit=3&before=" + id(4):                                    {"1 2 3", true, id(3)},
		"limit=3&order=asc&before=" + id(4):                          {"1 2 3", true, id(3)},
		"limit=3&order=desc&before=" + id(4):                         {"3 2 1", true, id(3)},
		"limit=3&order=desc&before=" + id(1):                         {"0", false, id(0)},
		"limit=3&before=" + id(0):                                    {"", false, "0-0"},
		"before=" + stream.MaxID.String():                            {"0 1 2 3 4 5 6", false, id(6)},
		"order=desc&after=" + id(3):                                  {"6 5 4", false, id(6)},
		"order=desc&limit=3&after=" + id(3):                          {"6 5 4", false, id(6)},
		"order=desc&limit=2&after=" + id(3):                          {"6 5", true, id(6)},
		"order=desc&after=" + id(6):                                  {"", false, id(6)},
		"order=desc&after=1-0":                                       {"6 5 4 3 2 1 0", false, id(6)},
		"order=desc&after=earliest&limit=1":                          {"6", true, id(6)},
		"after=" + id(1) + "&before=" + id(5):                        {"2 3 4", false, id(4)},
		"after=" + id(1) + "&limit=2&before=" + id(5):                {"3 4", true, id(4)},
		"after=" + id(4) + "&before=" + id(5):                        {"", false, id(4)},
		"order=desc&since=1h":                                        {"6 5 4 3 2 1 0", false, id(6)},
		"order=desc&since=" + strconv.FormatInt(1<<42, 10):           {"", false, id(6)},
		"before=" + id(2) + "&since=" + strconv.FormatInt(1<<42, 10): {"", false, "0-0"},
	} {
		p := w.history("a", query)
		require.Equal(t, want.payloads, p.payloads(), query)
		require.Equal(t, want.more, p.More, query)
		require.Equal(t, want.cursor, p.Cursor, query)
		require.Nil(t, p.Gap, query)
		if p.Cursor != "0-0" {
			require.Nil(t, w.history("a", "after="+p.Cursor).Gap, "a cursor is good: %s", query)
		}
	}
	// Backwards through all of it, as far as it goes.
	var all []string
	query := "order=desc&limit=2"
	for {
		p := w.history("a", query)
		for _, m := range p.Messages {
			all = append(all, m.Payload)
		}
		if !p.More {
			break
		}
		query = "order=desc&limit=2&before=" + p.Messages[len(p.Messages)-1].ID
	}
	require.Equal(t, "6 5 4 3 2 1 0", strings.Join(all, " "))
}

// Holds G88.
func TestHistoryBackwardsTellsGaps(t *testing.T) {
	log := memlog.New(memlog.Options{Retention: func(string) stream.Retention { return stream.Retention{MaxMessages: 3} }})
	w := newWorldOn(t, log, Options{})
	var ids []stream.ID
	for i := range 6 {
		ids = append(ids, w.publish("a", strconv.Itoa(i)))
	}
	p := w.history("a", "order=desc&limit=2&after="+ids[0].String())
	require.Equal(t, "5 4", p.payloads())
	require.True(t, p.More)
	require.Equal(t, "trimmed", p.Gap.Reason)
	require.Equal(t, uint64(2), *p.Gap.Missed)
	require.Equal(t, ids[3].String(), *p.Gap.Next)
	require.Nil(t, w.history("a", "order=desc&after="+ids[2].String()).Gap)
	foreign := stream.ID{MS: ids[4].MS + 1000, N: 99}
	p = w.history("a", "order=desc&after="+foreign.String())
	require.Equal(t, "5 4 3", p.payloads())
	require.Equal(t, "reset", p.Gap.Reason)
	require.NoError(t, w.log.Delete(t.Context(), "a"))
	p = w.history("a", "order=desc&after="+ids[3].String())
	require.Empty(t, p.Messages)
	require.Equal(t, uint64(2), *p.Gap.Missed)
	require.Equal(t, ids[5].String(), p.Cursor)
	p = w.history("a", "order=desc&after="+foreign.String())
	require.Equal(t, "reset", p.Gap.Reason)
	require.Equal(t, ids[5].String(), p.Cursor)
}

// A page backwards is bounded, too; what is left out is its oldest.
// Holds G88.
func TestHistoryBackwardsBytes(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 5 {
		w.publish("a", strconv.Itoa(i)+strings.Repeat("\x01", 60<<10)) // six bytes each in JSON
	}
	for query, want := range map[string]string{"order=desc": "43", "before=" + stream.MaxID.String(): "34"} {
		require.LessOrEqual(t, len(w.do("GET", "/v1/channels/a/messages?"+query, "").body), 1<<20)
		p := w.history("a", query)
		got := ""
		for _, m := range p.Messages {
			got += m.Payload[:1]
		}
		require.Equal(t, want, got)
		require.True(t, p.More)
	}
}

// The end is no message: the newest one stands before it.
func TestHistoryBackwardsFromAnEnd(t *testing.T) {
	w := newWorld(t, Options{})
	w.publish("a", "1")
	w.publish("a", "2")
	end, err := w.log.Append(t.Context(), stream.Message{Channel: "a", End: stream.EndAlone})
	require.NoError(t, err)
	p := w.history("a", "order=desc&limit=1")
	require.Equal(t, "2", p.payloads())
	require.True(t, p.More)
	require.Equal(t, end.ID.String(), p.Cursor)
	p = w.history("a", "order=desc&limit=2")
	require.Equal(t, "2 1", p.payloads())
	require.False(t, p.More)
}
