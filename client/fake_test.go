package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/client"
)

// fake answers requests in this process, so that a test has its own time. Each
// request gets the next answer; when there are no more, the last one again.
type fake struct {
	t *testing.T

	mu       sync.Mutex // guards the following
	answers  []answer
	requests []request
}

// answer answers a request.
type answer func(*http.Request) (*http.Response, error)

// request is a request as it came.
type request struct {
	*http.Request
	at   time.Duration // since the one before
	when time.Time
	body string
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	f.mu.Lock()
	now := time.Now()
	in := request{Request: r, when: now, body: body}
	if n := len(f.requests); n > 0 {
		in.at = now.Sub(f.requests[n-1].when)
	}
	f.requests = append(f.requests, in)
	next := f.answers[0]
	if len(f.answers) > 1 {
		f.answers = f.answers[1:]
	}
	f.mu.Unlock()
	return next(r)
}

// asked are the requests so far; a test that is alone may look itself.
func (f *fake) asked() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// client is a client of the fake.
func (f *fake) client(o client.Options) *client.Client {
	o.HTTPClient = &http.Client{Transport: f}
	c, err := client.New(o)
	require.NoError(f.t, err)
	return c
}

func respond(r *http.Request, status int, body io.ReadCloser, header ...string) *http.Response {
	head := http.Header{}
	for i := 0; i < len(header); i += 2 {
		head.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: head, Body: body, Request: r, ProtoMajor: 1, ProtoMinor: 1}
}

// says answers with a body.
func says(status int, body string, header ...string) answer {
	return func(r *http.Request) (*http.Response, error) {
		return respond(r, status, io.NopCloser(strings.NewReader(body)), header...), nil
	}
}

// refuses answers with a problem.
func refuses(status int, code string, header ...string) answer {
	return says(status, fmt.Sprintf(`{"type":"about:blank","title":"T","status":%d,"detail":"the detail","code":%q}`, status, code),
		append([]string{"Content-Type", "application/problem+json"}, header...)...)
}

// refused is a connection that nobody takes.
func refused(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// cut is a connection that breaks after the request has left.
func cut(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// hangs does not answer.
func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

var errReset = errors.New("connection reset by peer")

// streams answers with an event stream that write writes; when it returns, the
// connection breaks.
func streams(write func(ctx context.Context, w io.Writer)) answer {
	return func(r *http.Request) (*http.Response, error) {
		out, in := io.Pipe()
		stop := context.AfterFunc(r.Context(), func() { _ = in.CloseWithError(r.Context().Err()) })
		go func() {
			defer stop()
			write(r.Context(), in)
			_ = in.CloseWithError(errReset)
		}()
		return respond(r, 200, out, "Content-Type", "text/event-stream"), nil
	}
}

// sends is a stream of these texts, which then breaks.
func sends(texts ...string) answer {
	return streams(func(_ context.Context, w io.Writer) {
		for _, text := range texts {
			_, _ = io.WriteString(w, text)
		}
	})
}

// stays is a stream of these texts on which then nothing comes.
func stays(texts ...string) answer {
	return streams(func(ctx context.Context, w io.Writer) {
		for _, text := range texts {
			_, _ = io.WriteString(w, text)
		}
		<-ctx.Done()
	})
}

// Frames of the contract.
const (
	retryLine  = "retry: 1500\n\n"
	readyFrame = "id: 100-1\nevent: rejoin.ready\ndata: {\"channels\":{\"news\":{\"cursor\":\"100-1\",\"replay\":2}},\"cursor\":\"100-1\"}\n\n"
	liveFrame  = "event: rejoin.state\ndata: {\"state\":\"live\",\"since\":\"2026-01-01T00:00:00.000Z\"}\n\n"
	endFrame   = "id: 400-4\nevent: rejoin.end\ndata: {\"channel\":\"news\",\"id\":\"400-4\"}\n\n"
)

// messageFrame is the n-th message of news, at the time 100n.
func messageFrame(n int) string {
	return fmt.Sprintf("id: %d-%d\ndata: {\"channel\":\"news\",\"id\":\"%d-%d\",\"time\":\"1970-01-01T00:00:00.%d00Z\",\"payload\":\"m%d\"}\n\n", 100*n, n, 100*n, n, n%10, n)
}
