package longpoll

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

// Every bad value is refused by name, before anything is held.
// Holds G110.
func TestBadValues(t *testing.T) {
	w := newWorld(t, Options{}, memlog.Options{})
	for name, values := range map[string][]string{
		"timeout":  {"", "999ms", "61s", "60.001s", "25", "-1s", "x", "1e3s", "9999999999h"},
		"wait":     {"", "1001ms", "-1ms", "2s", "x", "50"},
		"limit":    {"", "0", "1001", "-1", "1.5", "x", "99999999999999999999", "0x10", "+5"},
		"callback": {"", "1a", ".a", "a-b", "a%20b", "a(", "alert(1)//", "a%0Ab", "%C3%A9", "a%00", strings.Repeat("a", 65), "a;b", "a[0]"},
		"status":   {"", "200", "Body", "bodyx"},
	} {
		for _, value := range values {
			resp, body := w.get("channel=a&"+name+"="+value, "")
			require.Equal(t, 400, resp.StatusCode, "%s=%s: %s", name, value, body)
			require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			require.Contains(t, body, `"detail":"`+name+": want ")
		}
	}
	for _, query := range []string{"", "channel=a&lastEventId=nonsense", "channel=a&channel=b&lastEventId=5-5"} {
		resp, body := w.get(query, "")
		require.Equal(t, 400, resp.StatusCode, body)
	}
	require.Zero(t, w.broker.Stats().Subscriptions)
	for _, query := range []string{
		"timeout=1s", "timeout=60s", "timeout=1m", "wait=0", "wait=0s", "wait=1s", "limit=1", "limit=1000", "status=body",
		"_=1764530000123", "callback=$", "callback=a.b.c", "callback=_0", "callback=" + strings.Repeat("a", 64),
	} {
		resp, body := w.get("channel=a&"+query, "")
		require.Equal(t, 200, resp.StatusCode, "%s: %s", query, body)
	}
}

// callOf is what a page's script element would call, and with what.
func callOf(t *testing.T, resp *http.Response, body string) (callback, argument string) {
	t.Helper()
	require.Equal(t, []string{"application/javascript"}, resp.Header["Content-Type"])
	require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	require.Equal(t, int64(len(body)), resp.ContentLength)
	m := regexp.MustCompile(`^/\*\*/([A-Za-z_$][\w$.]*)\((\{.*\})\);$`).FindStringSubmatch(body) // in one line
	require.NotNil(t, m, body)
	for _, c := range []byte(body) {
		require.Less(t, c, byte(0x80))
		require.GreaterOrEqual(t, c, byte(' '))
	}
	require.Equal(t, 1, strings.Count(body, "/**/"))
	return m[1], m[2]
}

// Holds G110.
func TestJSONP(t *testing.T) {
	w := newWorld(t, Options{}, memlog.Options{})
	texts := []string{"a\u2028b\u2029c", "é ß 漢字 🙂 \U0010FFFF", "</script>\r\n\"\\'", "\x00\x7f", "", "});alert(1)//"}
	for _, text := range texts {
		w.publish("a", text)
	}
	resp, body := w.get("channel=a&lastEventId=0&callback=app.on_$1", "")
	name, argument := callOf(t, resp, body)
	require.Equal(t, "app.on_$1", name)
	a := parse(t, argument)
	require.Len(t, a.Messages, len(texts))
	for i, m := range a.Messages {
		require.Equal(t, texts[i], m.Payload)
	}
	require.Equal(t, a.Cursor, resp.Header.Get("Last-Event-ID"))
	require.Contains(t, body, `a\u2028b\u2029c`)
	require.Contains(t, body, `\ud83d\ude42`)

	// Plain answers keep their UTF-8, but for what would end a line of script.
	_, body = w.get("channel=a", "0")
	require.Contains(t, body, "漢字 🙂")
	require.Contains(t, body, `a\u2028b\u2029c`)
}

// Errors in every form, from the request's reading to the log's.
// Holds G110.
func TestErrorsInForm(t *testing.T) {
	w := newWorld(t, Options{}, memlog.Options{})
	type inBody struct {
		Error  struct{ Detail string }
		Status int
	}
	for _, query := range []string{"channel=a&limit=0", "channel=a%20b", "channel=broken"} {
		status := 400
		if query == "channel=broken" {
			status = 500
		}
		resp, plain := w.get(query, "")
		require.Equal(t, status, resp.StatusCode)
		require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
		want := inBody{Status: status}
		require.NoError(t, json.Unmarshal([]byte(plain), &want.Error))

		var got inBody
		resp, body := w.get(query+"&status=body", "")
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		require.Equal(t, want, got)

		for extra, code := range map[string]int{"&callback=f": status, "&callback=f&status=body": 200} {
			resp, body = w.get(query+extra, "")
			require.Equal(t, code, resp.StatusCode)
			name, argument := callOf(t, resp, body)
			require.Equal(t, "f", name)
			got = inBody{}
			require.NoError(t, json.Unmarshal([]byte(argument), &got))
			require.Equal(t, want, got)
		}
	}
	// A callback that is refused is not called, and a status that is not known
	// does not hide the real one.
	resp, body := w.get("channel=a&status=body&callback=a(b)", "")
	require.Equal(t, 200, resp.StatusCode)
	require.Regexp(t, `^{"error":.*"status":400}$`, body)
	require.NotContains(t, resp.Header.Get("Content-Type"), "javascript")
	resp, body = w.get("channel=a&status=b&callback=f", "")
	require.Equal(t, 400, resp.StatusCode)
	_, argument := callOf(t, resp, body)
	require.Contains(t, argument, `"status: want body`)
	resp, body = w.get("channel=%zz&callback=f&limit=%zz", "")
	require.Equal(t, 400, resp.StatusCode)
	_, argument = callOf(t, resp, body)
	require.Contains(t, argument, `"channel: a % must be`)
	require.Equal(t, 200, mustStatus(t, w, "channel=a&status=body"), "a good answer is the same")
}

func mustStatus(t *testing.T, w *world, query string) int {
	resp, body := w.get(query, "")
	parse(t, body)
	return resp.StatusCode
}

// A channel that cannot be read is an error, also beside one that can.
func TestBrokenChannel(t *testing.T) {
	bubble(t, memlog.Options{}, func(t *testing.T, w *world) {
		w.publish("a", "1")
		for _, cursor := range []string{"", "earliest"} {
			resp, body := w.get("channel=a&channel=broken", cursor)
			require.Equal(t, 500, resp.StatusCode)
			require.Contains(t, body, "log broken")
		}
	})
}

// A client that leaves a held poll is noticed at once, and not answered.
func TestClientLeaves(t *testing.T) {
	w := newWorld(t, Options{}, memlog.Options{})
	for _, half := range []bool{false, true} {
		conn := w.dial("channel=a&lastEventId=1-0")
		<-w.log.asked
		if half {
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			rest, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Empty(t, rest)
		}
		require.NoError(t, conn.Close())
		w.gone()
	}
}

// gone waits until no poll is held or answered.
func (w *world) gone() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.broker.Stats().Subscriptions == 0 }, 10*time.Second, time.Millisecond)
}

// dial sends a request on a connection of its own.
func (w *world) dial(query string) net.Conn {
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	w.send(conn, query)
	return conn
}

func (w *world) send(conn net.Conn, query string) {
	_, err := io.WriteString(conn, "GET /?"+query+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(w.t, err)
}

// receive reads the next answer.
func (w *world) receive(in *bufio.Reader) answered {
	resp, err := http.ReadResponse(in, nil)
	require.NoError(w.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return parse(w.t, string(body))
}

// A client that takes nothing for Stuck is ended; one that is slow is not.
func TestStuckClient(t *testing.T) {
	w := newWorld(t, Options{Stuck: 100 * time.Millisecond}, memlog.Options{})
	w.publish("a", strings.Repeat("x", 16<<20)) // more than the kernel's buffers hold
	stuck := w.dial("channel=a&lastEventId=0")
	for w.broker.Stats().Subscriptions == 0 {
		runtime.Gosched()
	}
	w.gone()
	resp, err := http.ReadResponse(bufio.NewReader(stuck), nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut off, and seen to be")

	// The deadline ends with the answer: the connection is good for a poll that
	// is held for longer.
	slow := w.dial("channel=a&lastEventId=0")
	in := bufio.NewReader(slow)
	resp, err = http.ReadResponse(in, nil)
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.Greater(t, n, int64(16<<20))
	cursor := resp.Header.Get("Last-Event-ID")
	w.send(slow, "channel=a&timeout=1s&lastEventId="+cursor)
	require.Equal(t, cursor, w.receive(in).Cursor)
}

// A large answer goes out in pieces, each with its own time to make progress.
func TestDeadlineForEachPiece(t *testing.T) {
	bubble(t, memlog.Options{}, func(t *testing.T, w *world) {
		w.publish("a", strings.Repeat("x", 50_000))
		w.publish("a", strings.Repeat("x", 50_000))
		req, err := delivery.ParseRequest("channel=a&lastEventId=0", "", delivery.RequestRules{})
		require.NoError(t, err)
		out := &pieces{ResponseRecorder: httptest.NewRecorder()}
		require.NoError(t, w.handler.Serve(out, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), req))
		require.Len(t, out.deadlines, 8)
		for _, d := range out.deadlines[:7] {
			require.Equal(t, 10*time.Second, time.Until(d))
		}
		require.True(t, out.deadlines[7].IsZero())
		require.LessOrEqual(t, out.most, pieceBytes)
	})
}

type pieces struct {
	*httptest.ResponseRecorder
	deadlines    []time.Time
	unsent, most int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.unsent += len(b)
	p.most = max(p.most, p.unsent)
	return p.ResponseRecorder.Write(b)
}
func (p *pieces) Flush() { p.unsent = 0 }
func (p *pieces) SetWriteDeadline(t time.Time) error {
	p.deadlines = append(p.deadlines, t)
	return nil
}

// Two requests that follow each other without a wait are answered in turn.
func TestPipelined(t *testing.T) {
	w := newWorld(t, Options{}, memlog.Options{})
	conn := w.dial("channel=a&lastEventId=1-0")
	w.send(conn, "channel=a&lastEventId=1-0")
	<-w.log.asked
	id := w.publish("a", "1").String()
	in := bufio.NewReader(conn)
	require.Equal(t, id, w.receive(in).Cursor)
	require.Equal(t, id, w.receive(in).Cursor)
}

// So are many that come in one piece, of which each is held.
func TestPipelinedInOnePiece(t *testing.T) {
	w := newWorld(t, Options{}, memlog.Options{})
	const polls = 20
	const held = " HTTP/1.1\r\nHost: x\r\n\r\nGET /?channel=a&wait=1ms&lastEventId=1-0"
	conn := w.dial("channel=a&wait=1ms&lastEventId=1-0" + strings.Repeat(held, polls-1))
	<-w.log.asked
	id := w.publish("a", "1").String()
	in := bufio.NewReader(conn)
	for range polls {
		require.Equal(t, id, w.receive(in).Cursor)
	}
}

func TestRetryIsRandom(t *testing.T) {
	h := New(Options{})
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := h.retry()
		require.GreaterOrEqual(t, d, 500*time.Millisecond)
		require.LessOrEqual(t, d, 3*time.Second)
		seen[d] = true
	}
	require.Greater(t, len(seen), 500)
	require.Equal(t, 5*time.Second, New(Options{RetryMin: 5 * time.Second}).retry())
}

// A closed broker has no position to give, and says so.
func TestServerGone(t *testing.T) {
	w := newSilentWorld(t, Options{}, memlog.Options{})
	w.broker.Close()
	defer w.log.Close()
	req, err := delivery.ParseRequest("channel=a", "", delivery.RequestRules{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = w.handler.Serve(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil), req)
	require.ErrorIs(t, err, stream.ErrUnavailable)
	require.NoError(t, ctx.Err())
}

var callbackRule = regexp.MustCompile(`\A[A-Za-z_$][\w$.]{0,63}\z`)

// A callback is accepted exactly by the contract's pattern, and whatever the
// answer holds, it is one call in one line of ASCII.
func FuzzCallback(f *testing.F) {
	for _, seed := range []string{"", "f", "$", "a.b", "a.b\n", "1", ".", "é", "a(", strings.Repeat("x", 64), strings.Repeat("x", 65), "\u2028", "A_z$0"} {
		f.Add(seed, "text \u2028 \U0001F642 "+seed)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if isCallback(name) != callbackRule.MatchString(name) {
			t.Fatalf("isCallback(%q) is %v", name, isCallback(name))
		}
		if !isCallback(name) {
			return
		}
		script := string(call(name, one(stream.AppendJSONString(nil, text))))
		argument, ok := strings.CutPrefix(script, "/**/"+name+"(")
		if !ok || !strings.HasSuffix(argument, ");") {
			t.Fatalf("%q", script)
		}
		for _, c := range []byte(script) {
			if c < ' ' || c >= 0x80 {
				t.Fatalf("%q holds %x", script, c)
			}
		}
		var got string
		if err := json.Unmarshal([]byte(strings.TrimSuffix(argument, ");")), &got); err != nil || got != string([]rune(text)) {
			t.Fatalf("%q is read as %q, %v", text, got, err)
		}
	})
}
