package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// Every refusal of a publish: its status, its code, a detail that names what is
// wrong; and nothing was appended.
// Holds G9, G10, G55.
func TestPublishIsRefused(t *testing.T) {
	w := newWorld(t, Options{})
	const path = "/v1/channels/a/messages"
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code, detail       string
	}{
		"channel with a slash":    {"POST", "/v1/channels/a%2Fb/messages", "x", nil, 400, "bad_request", "channel: "},
		"not UTF-8":               {"POST", path, "a\xffb", nil, 400, "bad_request", "UTF-8"},
		"half a character":        {"POST", path, "a\xf0\x9f\x98", nil, 400, "bad_request", "UTF-8"},
		"surrogate":               {"POST", path, "\xed\xa0\x80", nil, 400, "bad_request", "UTF-8"},
		"event with LF":           {"POST", path + "?event=a%0Ab", "x", nil, 400, "bad_request", "event: "},
		"event with CR":           {"POST", path + "?event=a%0Db", "x", nil, 400, "bad_request", "event: "},
		"event with NUL":          {"POST", path + "?event=a%00b", "x", nil, 400, "bad_request", "event: "},
		"event not UTF-8":         {"POST", path + "?event=%ff", "x", nil, 400, "bad_request", "event: "},
		"event open":              {"POST", path + "?event=open", "x", nil, 400, "bad_request", "event: "},
		"event error":             {"POST", path + "?event=error", "x", nil, 400, "bad_request", "event: "},
		"event rejoin.":           {"POST", path + "?event=rejoin.x", "x", nil, 400, "bad_request", "event: "},
		"the last event counts":   {"POST", path + "?event=ok&event=open", "x", nil, 400, "bad_request", "event: "},
		"key not UTF-8":           {"POST", path + "?key=%ff", "x", nil, 400, "bad_request", "key: "},
		"event, bad escape":       {"POST", path + "?event=%zz", "x", nil, 400, "bad_request", "event: "},
		"key, bad escape":         {"POST", path + "?key=50%", "x", nil, 400, "bad_request", "key: "},
		"end, bad escape":         {"POST", path + "?end=%zz", "x", nil, 400, "bad_request", "end: "},
		"token, bad escape":       {"POST", path + "?token=%zz", "x", nil, 400, "bad_request", "token: "},
		"end neither yes nor no":  {"POST", path + "?end=1", "x", nil, 400, "bad_request", "end: "},
		"end, empty":              {"POST", path + "?end=", "x", nil, 400, "bad_request", "end: "},
		"token":                   {"POST", path + "?token=secret", "x", nil, 400, "bad_request", "token: "},
		"empty idempotency key":   {"POST", path, "x", []string{"Idempotency-Key", ""}, 400, "bad_request", "Idempotency-Key: "},
		"long idempotency key":    {"POST", path, "x", []string{"Idempotency-Key", strings.Repeat("k", 201)}, 400, "bad_request", "Idempotency-Key: "},
		"two idempotency keys":    {"POST", path, "x", []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, "bad_request", "Idempotency-Key: "},
		"too large":               {"POST", path, strings.Repeat("x", 1<<20+1), nil, 413, "payload_too_large", "1048576 bytes"},
		"method":                  {"PUT", path, "x", nil, 405, "method_not_allowed", "GET, POST"},
		"unknown method":          {"BREW", path, "x", nil, 405, "method_not_allowed", "GET, POST"},
		"growing body, not built": {"POST", "/v1/channels/a/stream", "", nil, 404, "not_found", "growing body"},
		"end of no channel":       {"POST", "/v1/channels/a%2Fb/end", "", nil, 400, "bad_request", "channel: "},
		"end with a token":        {"POST", "/v1/channels/a/end?token=secret", "", nil, 400, "bad_request", "token: "},
		"nothing there":           {"POST", "/v1/channel/a/messages", "x", nil, 404, "not_found", "/v1/channel/a/messages"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.do(c.method, c.path, c.body, c.header...)
			require.Contains(t, a.problem(t, c.status, c.code), c.detail)
			require.NotContains(t, a.body, "secret")
			if c.status == 405 {
				require.Equal(t, "GET, POST", a.Header.Get("Allow"))
			}
		})
	}
	require.Zero(t, w.log.writes)
	b, err := w.log.Bounds(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, stream.Bounds{}, b)
	require.Equal(t, 201, w.do("POST", path, "x", "Idempotency-Key", strings.Repeat("k", 200)).StatusCode)
	require.Equal(t, 201, w.do("POST", path+"?event=opened&key=", "x").StatusCode)
}

// What the log refuses is told by its kind, and what the log itself said is not.
// Holds G55, G56.
func TestLogErrors(t *testing.T) {
	w := newWorld(t, Options{})
	said := errors.New("dial tcp redis.internal:6379")
	for kind, c := range map[error]struct {
		status     int
		code       string
		retryAfter string
	}{
		stream.ErrUnavailable:    {503, "log_unavailable", "1"},
		stream.ErrClosed:         {503, "log_unavailable", "1"},
		stream.ErrUnknownOutcome: {504, "unknown_outcome", ""},
		stream.ErrBroken:         {500, "log_broken", ""},
		stream.ErrFull:           {507, "log_full", ""},
		stream.ErrEnded:          {409, "channel_ended", ""},
		stream.ErrConflict:       {422, "idempotency_conflict", ""},
		errors.New("a bug"):      {500, "internal", ""},
	} {
		t.Run(kind.Error(), func(t *testing.T) {
			err := &stream.Error{Op: "append", Channel: "a", Kind: kind, Err: said, Hint: "delete the key rejoin:{1}:c:a"}
			w.log.failWrites(err)
			a := w.do("POST", "/v1/channels/a/messages", "x", "Idempotency-Key", "k")
			detail := a.problem(t, c.status, c.code)
			require.Equal(t, c.retryAfter, a.Header.Get("Retry-After"))
			require.NotContains(t, a.body, "redis.internal")
			require.Empty(t, a.Header.Get("Location"))
			if kind == stream.ErrBroken {
				require.Contains(t, detail, err.Hint)
			}
		})
	}
	w.log.mu.Lock()
	w.log.onWrite = nil
	w.log.onRead = func(stream.Query) (stream.Page, error) {
		return stream.Page{}, &stream.Error{Op: "read", Channel: "a", Kind: stream.ErrUnavailable, Err: said}
	}
	w.log.mu.Unlock()
	w.do("GET", "/v1/channels/a/messages", "").problem(t, 503, "log_unavailable")

	require.Equal(t, 1, strings.Count(w.logged.String(), "a request failed"), "one line for many failures at once")
	metrics := w.request("GET", w.admin+"/metrics", http.NoBody).body
	require.Contains(t, metrics, `rejoin_problems_total{code="log_unavailable"} 3`)
	require.Contains(t, metrics, `rejoin_problems_total{code="unknown_outcome"} 1`)
}

// What the contract names and this version lacks is refused by name.
// Holds G25, G36.
func TestNotBuiltIsRefusedByName(t *testing.T) {
	w := newWorld(t, Options{})
	require.Contains(t, w.do("POST", "/v1/channels/a/stream", "").problem(t, 404, "not_found"), "growing body")
	for path, name := range map[string]string{
		"/v1/sse?channel=a&conflate=1s":       "conflate: ",
		"/v1/channels/a/messages?before=x":    "before: ",
		"/v1/channels/a/messages?before=":     "before: ",
		"/v1/channels/a/messages?before=0-0":  "before: ",
		"/v1/channels/a/messages?order=up":    "order: ",
		"/v1/channels?match=":                 "match: ",
		"/v1/channels?match=**.a":             "match: ",
		"/v1/channels?limit=0":                "limit: ",
		"/v1/channels?cursor=x":               "cursor: ",
		"/v1/channels?cursor=l.1.1.eA":        "cursor: ",
		"/v1/channels?token=secret":           "token: ",
		"/v1/channels/a%2Fb":                  "channel: ",
		"/v1/channels/a%2Fb/messages/1-1":     "channel: ",
		"/v1/poll":                            "channel: ",
		"/v1/poll?channel=a&lastEventId=x":    "lastEventId: ",
		"/v1/poll?channel=a&timeout=5":        "timeout: ",
		"/v1/poll?channel=a&conflate=1s":      "conflate: ",
		"/v1/ws?channel=a&lastEventId=x":      "lastEventId: ",
		"/v1/ws?channel=a&heartbeat=x":        "heartbeat: ",
		"/v1/ws?channel=a&conflate=1s":        "conflate: ",
		"/v1/sse":                             "channel: ",
		"/v1/sse?channel=a&heartbeat=1s":      "heartbeat: ",
		"/v1/sse?channel=a&format=xml":        "format: ",
		"/v1/sse?channel=a&channel=b":         "format: ",
		"/v1/sse?channel=a&rewind=x":          "rewind: ",
		"/v1/sse?channel=a&since=x":           "since: ",
		"/v1/channels/a/messages?limit=0":     "limit: ",
		"/v1/channels/a/messages?limit=1001":  "limit: ",
		"/v1/channels/a/messages?limit=":      "limit: ",
		"/v1/channels/a/messages?after=x":     "after: ",
		"/v1/channels/a/messages?since=x":     "since: ",
		"/readyz?log=yes":                     "log: ",
		"/v1/sse?channel=%zz":                 "channel: ",
		"/v1/sse?channel=a&format=%zz":        "format: ",
		"/v1/sse?channel=a&padding=%zz":       "padding: ",
		"/v1/sse?channel=a&token=%zz":         "token: ",
		"/v1/poll?channel=a&timeout=%zz":      "timeout: ",
		"/v1/poll?channel=a&wait=%zz":         "wait: ",
		"/v1/poll?channel=a&limit=%zz":        "limit: ",
		"/v1/poll?channel=a&status=%zz":       "status: ",
		"/v1/poll?channel=a&callback=%zz":     "callback: ",
		"/v1/ws?channel=a&rewind=%zz":         "rewind: ",
		"/v1/channels?match=%zz":              "match: ",
		"/v1/channels?limit=%zz":              "limit: ",
		"/v1/channels?cursor=%zz":             "cursor: ",
		"/v1/channels/a/messages?limit=%zz":   "limit: ",
		"/v1/channels/a/messages?order=%zz":   "order: ",
		"/v1/channels/a/messages?since=%zz":   "since: ",
		"/v1/channels/a/messages?before=%zz":  "before: ",
		"/v1/channels/a/messages?after=%zz":   "after: ",
		"/readyz?log=%zz":                     "log: ",
		"/v1/channels/a/messages?after=1~x.y": "after: ",
	} {
		require.Contains(t, w.do("GET", path, "").problem(t, 400, "bad_request"), name, path)
	}
	require.Contains(t, w.do("GET", "/v1/sse?channel=a&channel=b&format=json", "", "Last-Event-ID", "5-5").
		problem(t, 400, "bad_request"), "Last-Event-ID: ")
	a := w.do("POST", "/v1/sse?channel=a", "")
	a.problem(t, 405, "method_not_allowed")
	require.Equal(t, "GET", a.Header.Get("Allow"))
	a = w.do("DELETE", "/healthz", "")
	a.problem(t, 405, "method_not_allowed")
	require.Equal(t, "GET, HEAD", a.Header.Get("Allow"))
}

// A stranger's query name is ignored, whatever it holds: old browsers and
// libraries add one against caches.
// Holds G36.
func TestStrangersInTheQuery(t *testing.T) {
	w := newWorld(t, Options{})
	const strangers = "_=50%&x=%zz&%zz=1"
	require.Equal(t, 201, w.do("POST", "/v1/channels/a/messages?"+strangers, "x").StatusCode)
	for _, path := range []string{
		"/v1/poll?channel=a&lastEventId=earliest&format=%zz", "/v1/channels/a/messages?callback=%zz", "/v1/channels/a?limit=%zz", "/v1/channels?order=%zz", "/readyz?channel=%zz",
	} {
		a := w.do("GET", path+"&"+strangers, "")
		require.Equal(t, 200, a.StatusCode, "%s: %s", path, a.body)
	}
	resp, _ := w.events("channel=a&callback=%zz&" + strangers)
	require.Equal(t, 200, resp.StatusCode)
}

// A poll is refused in the form it asks for, whatever of its query cannot be
// read.
func TestPollIsRefusedInItsForm(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.do("GET", "/v1/poll?channel=%zz&callback=cb&status=body", "")
	require.Equal(t, 200, a.StatusCode)
	require.Equal(t, "application/javascript", a.Header.Get("Content-Type"))
	require.Regexp(t, `^/\*\*/cb\(\{"error":\{.*"code":"bad_request"\},"status":400\}\);$`, a.body)
	a = w.do("GET", "/v1/poll?channel=a&callback=%zz&status=body", "")
	require.Equal(t, 200, a.StatusCode)
	require.Regexp(t, `^\{"error":\{.*callback: .*\},"status":400\}$`, a.body)
}

// A detail says no more than what is known: of what was asked, and of the log.
// Holds G55.
func TestDetailsAreTrue(t *testing.T) {
	w := newWorld(t, Options{})
	w.publish("a", "x")
	calls := map[string]func() answered{
		"append": func() answered { return w.do("POST", "/v1/channels/a/messages", "x", "Idempotency-Key", "k") },
		"end":    func() answered { return w.do("POST", "/v1/channels/a/end", "") },
		"delete": func() answered { return w.do("DELETE", "/v1/channels/a", "") },
		"read":   func() answered { return w.do("GET", "/v1/channels/a/messages", "") },
		"bounds": func() answered { return w.do("GET", "/v1/channels/a", "") },
		"list":   func() answered { return w.do("GET", "/v1/channels", "") },
	}
	for _, c := range []struct {
		kind   error
		call   string
		status int
		detail string
	}{
		{stream.ErrUnavailable, "append", 503, "the log is not available now; nothing was appended"},
		{stream.ErrUnavailable, "end", 503, "the log is not available now; the channel was not ended"},
		{stream.ErrUnavailable, "delete", 503, "the log is not available now; nothing was deleted"},
		{stream.ErrUnavailable, "read", 503, "the log is not available now"},
		{stream.ErrUnavailable, "bounds", 503, "the log is not available now"},
		{stream.ErrUnavailable, "list", 503, "the log is not available now"},
		{stream.ErrBroken, "append", 500, "the log refuses this until an operator mends it; nothing was appended (mend it)"},
		{stream.ErrBroken, "delete", 500, "the log refuses this until an operator mends it; nothing was deleted (mend it)"},
		{stream.ErrBroken, "read", 500, "the log refuses this until an operator mends it (mend it)"},
		{stream.ErrFull, "end", 507, "the log has no room; the channel was not ended"},
		{stream.ErrUnknownOutcome, "append", 504, "the log did not answer in time; the message may have been appended: repeat it with the same Idempotency-Key"},
		{stream.ErrUnknownOutcome, "end", 504, "the log did not answer in time; the channel may have been ended: repeat it"},
		{stream.ErrUnknownOutcome, "delete", 504, "the log did not answer in time; the channel may have been deleted: look, or repeat it"},
	} {
		// The step that failed may be one before what was asked.
		for _, op := range []string{c.call, "find the master"} {
			err := &stream.Error{Op: op, Kind: c.kind, Hint: "mend it"}
			w.log.failWrites(err)
			w.log.mu.Lock()
			w.log.onOther = err
			w.log.onRead = func(stream.Query) (stream.Page, error) { return stream.Page{}, err }
			w.log.mu.Unlock()
			require.Equal(t, c.detail, calls[c.call]().problem(t, c.status, problemOf(err).Code), "%s: %v", c.call, err)
		}
	}
	w.log.mu.Lock()
	w.log.onMany = func(context.Context, []stream.Message) []stream.Result {
		return []stream.Result{{Err: &stream.Error{Op: "find the master", Kind: stream.ErrUnavailable}}}
	}
	w.log.mu.Unlock()
	require.Equal(t, "the log is not available now; nothing was appended", w.many(`{"channels":["a"],"payload":"x"}`)[0].Error.Detail)
	require.NotContains(t, string(problemBody(&stream.Error{Op: "listen", Kind: stream.ErrBroken})), "appended", "told in a stream")
}
