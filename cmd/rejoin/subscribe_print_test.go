package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/client"
	"rejoin/stream"
)

// On a terminal a message stands behind its time, and cannot command it.
func TestPrintForAPerson(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 5e6, time.Local)
	m := client.Message{Channel: "news", ID: stream.ID{MS: 1, N: 1}, Time: at, Payload: "a\x1b[2J\u202eb\tc\nd\x07ä", Event: "rain\x1b"}
	for _, c := range []struct {
		p    printer
		want string
	}{
		{printer{person: true}, "12:00:00.005 [rain\\u001b] a\\u001b[2J\\u202eb\tc\nd\\u0007ä\n"},
		{printer{person: true, names: true}, "12:00:00.005 news [rain\\u001b] a\\u001b[2J\\u202eb\tc\nd\\u0007ä\n"},
		{printer{person: true, colour: true, names: true}, "\x1b[2m12:00:00.005\x1b[0m \x1b[95mnews\x1b[0m \x1b[2m[rain\\u001b]\x1b[0m a\\u001b[2J\\u202eb\tc\nd\\u0007ä\n"},
		{printer{}, m.Payload + "\n"},
	} {
		var out bytes.Buffer
		c.p.out = &out
		require.NoError(t, c.p.print(m))
		assert.Equal(t, c.want, out.String())
	}
}

func TestPrintJSONIsOneLine(t *testing.T) {
	var out bytes.Buffer
	p := printer{out: &out, json: true}
	m := client.Message{Channel: "news", ID: stream.ID{MS: 1764530000123, N: 1}, Payload: "a\n\"\u2028", Event: "e", Key: "k"}
	require.NoError(t, p.print(m))
	var back map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, map[string]string{
		"channel": "news", "id": "1764530000123-1", "time": "2025-11-30T19:13:20.123Z", "payload": m.Payload, "event": "e", "key": "k", "cursor": "",
	}, back)
	assert.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")))
}

// What happens is told once, not at every try.
func TestPrintTellsChanges(t *testing.T) {
	events := []client.Event{
		client.Ready{}, client.State{Name: client.Replaying}, client.State{Name: client.Live},
		client.State{Name: client.Stale}, client.State{Name: client.Stale}, client.State{Name: client.Live}, client.State{Name: client.Live},
		client.Disconnected{Err: errors.New("client: refused\x1b")}, client.Disconnected{Err: errors.New("refused")},
		client.Ready{}, client.State{Name: client.Live}, client.Move{},
		client.Gap{Channel: "news", Missed: 1, Reason: client.Trimmed}, client.Gap{Channel: "news", Missed: 7, Reason: client.Trimmed},
		client.Gap{Channel: "news", Reason: client.Reset}, client.End{Channel: "news"},
	}
	const gaps = `rejoin: news: 1 message is missing here: it is no longer kept
rejoin: news: 7 messages are missing here: they are no longer kept
rejoin: news: messages may be missing here: the log was lost or is another one; what comes next may have come before
`
	for _, c := range []struct {
		p    printer
		want string
	}{
		{printer{names: true, quiet: true}, gaps},
		{printer{names: true}, `rejoin: the server's log does not answer: messages may be late
rejoin: the log answers again
rejoin: not connected: refused\u001b: trying again
rejoin: connected again
` + gaps + "rejoin: news has ended\n"},
	} {
		var out, errs bytes.Buffer
		c.p.out, c.p.err = &out, &errs
		for _, e := range events {
			require.NoError(t, c.p.print(e))
		}
		assert.Empty(t, out.String())
		assert.Equal(t, c.want, errs.String())
	}
	var errs bytes.Buffer
	p := printer{err: &errs, errs: true, watched: true}
	require.NoError(t, p.print(client.Ready{}))
	require.NoError(t, p.print(events[12]))
	assert.Equal(t, "\x1b[2mrejoin: following; Ctrl-C ends it\x1b[0m\n\x1b[33mrejoin: 1 message is missing here: it is no longer kept\x1b[0m\n", errs.String())
}

func TestNoColoursWhereNobodyLooks(t *testing.T) {
	p := newPrinter(&bytes.Buffer{}, &bytes.Buffer{}, &subscribing{}, false)
	assert.False(t, p.person || p.colour || p.watched || p.errs)
}
