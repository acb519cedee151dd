package longpoll

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rejoin/stream/memlog"
)

// A connection whose poll was held, and taken from the HTTP server for that time,
// goes on serving polls: held ones and others.
func TestHeldPollKeepsItsConnection(t *testing.T) {
	w := newWorld(t, Options{}, memlog.Options{})
	conn := w.dial("channel=a")
	in := bufio.NewReader(conn)
	cursor := w.receive(in).Cursor
	<-w.log.asked
	for _, payload := range []string{"one", "two", "three"} {
		w.send(conn, "channel=a&lastEventId="+cursor)
		<-w.log.asked
		w.publish("a", payload)
		got := w.receive(in)
		require.Len(t, got.Messages, 1)
		require.Equal(t, payload, got.Messages[0].Payload)
		cursor = got.Cursor
	}
	w.send(conn, "channel=a&lastEventId=0")
	require.Len(t, w.receive(in).Messages, 3)
	w.send(conn, "channel=a&timeout=never")
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

// The body of a poll, which means nothing, is not taken for the next request.
func TestBodyOfAHeldPoll(t *testing.T) {
	w := newWorld(t, Options{}, memlog.Options{})
	conn := w.dial("channel=a")
	in := bufio.NewReader(conn)
	cursor := w.receive(in).Cursor
	<-w.log.asked
	_, err := io.WriteString(conn, "GET /?channel=a&lastEventId="+cursor+" HTTP/1.1\r\nHost: x\r\nContent-Length: 28\r\n\r\nDELETE / HTTP/1.1\r\nHost: y\r\n")
	require.NoError(t, err)
	<-w.log.asked
	w.publish("a", "one")
	require.Len(t, w.receive(in).Messages, 1)
	w.send(conn, "channel=a&lastEventId=0")
	require.Len(t, w.receive(in).Messages, 1)
}
