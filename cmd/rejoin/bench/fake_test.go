package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a small server of the contract that does wrong on purpose. Its log is
// never trimmed, so it can resume from any cursor.
type fake struct {
	url string

	// write writes message i (1, 2, 3 …) of the channel to a subscriber; by
	// default [writeMessage].
	write func(w io.Writer, i int, payload string)
	// publish says how the n-th publish (of all channels) is answered and
	// whether it is appended; by default 201.
	publish func(n int) (status int, appended bool)
	// subscribe may answer a subscription itself.
	subscribe func(w http.ResponseWriter, n int) (answered bool)
	// cutAfter ends each response after so many messages, 0 for never, and with
	// cutHard the connection too.
	cutAfter int
	cutHard  bool
	noID     bool // rejoin.ready without an id
	skip     int  // the message that is left out

	mu        sync.Mutex // guards the following fields
	log       map[string][]string
	news      chan struct{} // closed and replaced at each append
	published int
	opened    int
}

// newFake starts a server that configure has spoiled.
func newFake(t *testing.T, configure func(*fake)) *fake {
	f := &fake{
		write:     writeMessage,
		publish:   func(int) (int, bool) { return http.StatusCreated, true },
		subscribe: func(http.ResponseWriter, int) bool { return false },
		log:       map[string][]string{},
		news:      make(chan struct{}),
	}
	if configure != nil {
		configure(f)
	}
	f.url = f.serve(t).URL
	return f
}

// serve starts another server on the same log.
func (f *fake) serve(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/channels/{channel}/messages", f.onPublish)
	mux.HandleFunc("GET /v1/sse", f.onSubscribe)
	mux.HandleFunc("GET /v1/ws", f.serveWS)
	mux.HandleFunc("GET /v1/poll", f.servePoll)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

func writeMessage(w io.Writer, i int, payload string) {
	fmt.Fprintf(w, "id: 1764530000000-%d\ndata: %s\n\n", i, payload)
}

func writeGap(w io.Writer, missed any, reason string) {
	fmt.Fprintf(w, "event: rejoin.gap\ndata: {\"channel\":\"c\",\"after\":\"1-0\",\"next\":null,\"missed\":%v,\"reason\":%q}\n\n", missed, reason)
}

func (f *fake) onPublish(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published++
	status, appended := f.publish(f.published)
	if appended {
		channel := r.PathValue("channel")
		f.log[channel] = append(f.log[channel], string(body))
		close(f.news)
		f.news = make(chan struct{})
	}
	if status == 0 {
		panic(http.ErrAbortHandler) // cut
	}
	w.WriteHeader(status)
	fmt.Fprint(w, `{"code":"`, status, `"}`)
}

func (f *fake) onSubscribe(w http.ResponseWriter, r *http.Request) {
	channel := r.URL.Query().Get("channel")
	f.mu.Lock()
	f.opened++
	opened, at := f.opened, len(f.log[channel])
	f.mu.Unlock()
	if f.subscribe(w, opened) {
		return
	}
	if _, n, ok := strings.Cut(r.Header.Get("Last-Event-ID"), "-"); ok {
		at, _ = strconv.Atoi(n)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	ready := fmt.Sprintf("id: 1764530000000-%d\n", at)
	if f.noID {
		ready = ""
	}
	fmt.Fprintf(w, "retry: 10\n\n%sevent: rejoin.ready\ndata: {}\n\n", ready)
	flush := http.NewResponseController(w).Flush
	for sent := 0; ; {
		f.mu.Lock()
		log, news := f.log[channel], f.news
		f.mu.Unlock()
		for ; at < len(log); at++ {
			if sent++; f.cutAfter > 0 && sent > f.cutAfter {
				if f.cutHard {
					panic(http.ErrAbortHandler)
				}
				return
			}
			if at+1 != f.skip {
				f.write(w, at+1, log[at])
			}
		}
		if flush() != nil {
			return
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// small is a run of 40 messages to 12 subscribers on 3 channels: 160 deliveries.
func small(url string) Options {
	o := DefaultOptions()
	o.URLs = []string{url}
	o.Subscribers, o.Channels, o.Publishers = 12, 3, 2
	o.Rate, o.Duration = 400, 100*time.Millisecond
	o.Settle, o.Quiet = time.Millisecond, 300*time.Millisecond
	return o
}
