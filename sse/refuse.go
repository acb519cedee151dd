package sse

import (
	"net/http"
	"time"
)

// refusedRetry is how long a client that was refused is told to wait.
const refusedRetry = 30 * time.Second

// Refuse answers a request that cannot be served now with a stream that tells
// the problem, a JSON object in one line, and ends: a browser never comes back
// after an error status, and after this it does, in half a minute. It does not
// return: it ends as [Handler.Serve] does.
func (h *Handler) Refuse(w http.ResponseWriter, problem []byte) {
	setHead(w.Header())
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(h.o.Stuck))
	_, _ = w.Write(AppendError(AppendRetry(nil, refusedRetry), problem))
	_ = control.Flush()
	panic(http.ErrAbortHandler)
}

// setHead sets the headers of every event stream.
func setHead(head http.Header) {
	head.Set("Content-Type", "text/event-stream") // with nothing behind it
	head.Set("Cache-Control", "no-store, no-transform")
	head.Set("X-Accel-Buffering", "no")
}
