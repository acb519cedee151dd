package bench

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTransports: each way to read gets all of it once, also from connections
// that live a moment, and a loss is seen on each.
func TestTransports(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"sse", "ws", "longpoll"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			speak := func(o *Options) { o.Transport = transport }
			onFleets(t, nil, speak, func(t *testing.T, r *Result) {
				if !r.OK || r.Delivered != 160 || r.Dropped != 0 || r.Latency.Max <= 0 {
					t.Errorf("%d of 160 delivered, %d dropped: %v", r.Delivered, r.Dropped, r.Err())
				}
			})
			onFleets(t, nil, func(o *Options) {
				speak(o)
				o.Life, o.Rate, o.Duration = 50*time.Millisecond, 200, 200*time.Millisecond
			}, func(t *testing.T, r *Result) {
				if !r.OK || r.Delivered != 160 || r.Reconnects == 0 {
					t.Errorf("%d of 160 delivered, %d reconnects: %v", r.Delivered, r.Reconnects, r.Err())
				}
			})
			onFleets(t, func(f *fake) { f.skip = 5 }, speak, func(t *testing.T, r *Result) {
				if r.OK || r.Lost != 12 || r.Delivered != 148 {
					t.Errorf("OK %t, %d lost, %d delivered; want false, 12, 148: %v", r.OK, r.Lost, r.Delivered, r.Err())
				}
			})
		})
	}
}

// TestRefusedTransports: what a server answers in place of a stream is told.
func TestRefusedTransports(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"ws", "longpoll"} {
		f := newFake(t, func(f *fake) {
			f.subscribe = func(w http.ResponseWriter, _ int) bool { http.Error(w, "no such thing", 404); return true }
		})
		o := small(f.url)
		o.Transport = transport
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "404 no such thing") {
			t.Errorf("%s: error %v, want what it said", transport, err)
		}
	}
}

// serveWS speaks WebSocket with one channel; ping comes first.
func (f *fake) serveWS(w http.ResponseWriter, r *http.Request) {
	channel, at, ok := f.begin(w, r)
	if !ok {
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n\x89\x02hi", acceptOf(r.Header.Get("Sec-WebSocket-Key")))
	pong := make([]byte, 8)
	if _, err := io.ReadFull(rw, pong); err != nil || string(pong) != "\x8a\x82\x00\x00\x00\x00hi" {
		return // the client is told nothing, and the test fails
	}
	frame := func(format string, args ...any) error {
		text := fmt.Sprintf(format, args...)
		_, err := conn.Write(fmt.Appendf(nil, "\x81%s%s", wsLength(len(text)), text))
		return err
	}
	_ = frame(`{"type":"ready","channels":{%q:{"cursor":"1764530000000-%d","replay":0}},"cursor":"1764530000000-%d","retry":10}`, channel, at, at)
	gone := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, rw); close(gone) }()
	for ; ; at++ {
		payload, ok := f.await(channel, at, gone)
		if !ok {
			break
		}
		if at+1 != f.skip && frame(`{"type":"message","channel":%q,"id":"1764530000000-%d","time":"2025-11-30T16:00:00Z","payload":%q}`, channel, at+1, payload) != nil {
			break
		}
	}
	conn.Close()
	<-gone
}

func wsLength(n int) string {
	if n < 126 {
		return string(byte(n))
	}
	return string([]byte{126, byte(n >> 8), byte(n)})
}

// servePoll answers a poll with one message.
func (f *fake) servePoll(w http.ResponseWriter, r *http.Request) {
	channel, at, ok := f.begin(w, r)
	if !ok {
		return
	}
	answer := map[string]any{"messages": []any{}, "gaps": []any{}, "retry": 10, "state": "live"}
	if r.URL.Query().Has("lastEventId") {
		if payload, ok := f.await(channel, at, r.Context().Done()); ok {
			at++
			if at != f.skip {
				answer["messages"] = []any{map[string]any{"channel": channel, "id": fmt.Sprint("1764530000000-", at), "payload": payload}}
			}
		}
	}
	answer["cursor"] = fmt.Sprint("1764530000000-", at)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// begin is the channel and position a request asks for.
func (f *fake) begin(w http.ResponseWriter, r *http.Request) (channel string, at int, ok bool) {
	q := r.URL.Query()
	channel = q.Get("channel")
	f.mu.Lock()
	f.opened++
	opened, at := f.opened, len(f.log[channel])
	f.mu.Unlock()
	if f.subscribe(w, opened) {
		return "", 0, false
	}
	if _, n, ok := strings.Cut(q.Get("lastEventId"), "-"); ok {
		at, _ = strconv.Atoi(n)
	}
	return channel, at, true
}

// await waits for the message behind position at.
func (f *fake) await(channel string, at int, gone <-chan struct{}) (payload string, ok bool) {
	for {
		f.mu.Lock()
		log, news := f.log[channel], f.news
		f.mu.Unlock()
		if at < len(log) {
			return log[at], true
		}
		select {
		case <-news:
		case <-gone:
			return "", false
		}
	}
}

// TestFramesSplitAnywhere cuts a stream of frames at every byte: the frames must
// not depend on it.
func TestFramesSplitAnywhere(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	big := strings.Repeat("y", 70_000)
	stream := "\x81\x02hi" + "\x89\x00" + "\x81\x7e\x01\x2c" + long + "\x81\x00" +
		"\x81\x7f\x00\x00\x00\x00\x00\x01\x11\x70" + big + "\x88\x02\x03\xe9"
	want := fmt.Sprintf("1:2:hi 9:0: 1:300:%s 1:0: 1:70000:%s 8:2:\x03\xe9 ", long, big[:maxKept])
	read := func(pieces ...string) string {
		var f frames
		var got strings.Builder
		for _, piece := range pieces {
			whole := []byte(piece)
			for p := whole; ; {
				rest, ok, err := f.next(p)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				fmt.Fprintf(&got, "%d:%d:%s ", f.op, f.size, f.text[:min(len(f.text), maxKept)])
				p = rest
			}
			for i := range whole {
				whole[i] = '!' // the next read goes into the same buffer
			}
		}
		return got.String()
	}
	for i := range 400 {
		if got := read(stream[:i], stream[i:]); got != want {
			t.Fatalf("cut at %d: %d bytes of frames, want %d", i, len(got), len(want))
		}
	}
	if got := read(strings.Split(stream, "")...); got != want {
		t.Fatal("byte by byte the frames differ")
	}
}

func TestFramesRefused(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]string{
		"masked":       "\x81\x82\x00\x00\x00\x00hi",
		"compressed":   "\xc1\x02hi",
		"a fragment":   "\x01\x02hi",
		"binary":       "\x82\x02hi",
		"long control": "\x89\x7e\x00\x7e",
		"far too long": "\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		var f frames
		if _, _, err := f.next([]byte(bytes)); !errors.Is(err, errFrame) {
			t.Errorf("%s: error %v, want errFrame", name, err)
		}
	}
}

func TestJSONMessage(t *testing.T) {
	t.Parallel()
	const whole = `{"channel":"c","id":"1-2","time":"…","payload":"abcdef"}`
	for cut := len(whole); cut >= len(whole)-7; cut-- {
		id, payload, length := jsonMessage([]byte(whole[:cut]), len(whole))
		if string(id) != "1-2" || length != 6 || !strings.HasPrefix("abcdef", string(payload)) {
			t.Errorf("cut at %d: %s %s %d", cut, id, payload, length)
		}
	}
	if id, payload, length := jsonMessage([]byte(`{"type":"x"}`), 12); id != nil || payload != nil || length != 0 {
		t.Errorf("of no message: %s %s %d", id, payload, length)
	}
}

// TestSeveralChannels: which channels a subscriber reads, how many read each, and
// the cursor that it builds (the contract's compact form; the hashes are those of
// printf NAME | sha256sum).
func TestSeveralChannels(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	o.Transport, o.Prefix = "ws", "c"
	o.Subscribers, o.Channels, o.ChannelsPerConnection = 3, 5, 2
	if got := fmt.Sprint(o.readersOf()); got != "[2 1 1 1 1]" {
		t.Errorf("readers of the channels: %s", got)
	}
	k := newClient(&shared{opts: &o}, newMeter(), 2, 0)
	if k.channel(0) != 4 || k.channel(1) != 0 || k.named("c.0") != 1 || k.named("c.1") != -1 {
		t.Errorf("the third subscriber reads %d and %d; c.0 is its %d., c.1 its %d.", k.channel(0), k.channel(1), k.named("c.0"), k.named("c.1"))
	}
	k.positions = [][]byte{[]byte("36-37"), []byte("1-0")}
	want := []string{channelHash("c.4") + ".10.11", channelHash("c.0") + ".1.0"}
	if got := k.builtCursor(); got != "1~"+want[0]+"~"+want[1] && got != "1~"+want[1]+"~"+want[0] || strings.Compare(strings.Split(got[2:], "~")[0], strings.Split(got[2:], "~")[1]) > 0 {
		t.Errorf("cursor %s of %v", got, want)
	}
	if got := channelHash("news"); got != "a4k77g2wp" {
		t.Errorf("hash of news: %s", got)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	text := "# HELP x\nprocess_cpu_seconds_total 1.5\nprocess_resident_memory_bytes 2.097152e+06\n"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprint(w, text)
		}
	}))
	defer srv.Close()
	p, err := ParseMetricsURL(srv.URL)
	if err != nil || p.Name != "server" || p.URL != srv.URL+"/metrics" {
		t.Fatalf("%+v, %v", p, err)
	}
	if u, err := p.read(); err != nil || u.cpu != 1500*time.Millisecond || u.rssKB != 2048 {
		t.Errorf("%+v, %v", u, err)
	}
	p.URL = srv.URL + "/elsewhere"
	if _, err := p.read(); err == nil || !strings.Contains(err.Error(), "process_cpu_seconds_total") {
		t.Errorf("error %v, want what is missing", err)
	}
	if _, err := ParseMetricsURL("ftp://x"); err == nil || !strings.Contains(err.Error(), "--metrics-url") {
		t.Errorf("error %v, want one about --metrics-url", err)
	}
}

// TestReport: the picture is XML, has each curve of each result, and nothing in
// it is not a number.
func TestReport(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := WriteReport(&b, sample(), floorSample()); err != nil {
		t.Fatal(err)
	}
	curves := 0
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			curves++
		}
	}
	if curves != 10 || strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Errorf("%d curves, want 5 of each of 2 results:\n%s", curves, b.String())
	}
	if err := WriteReport(&b, &Result{}); err != nil { // nothing happened
		t.Error(err)
	}
}

// TestSeries: the samples of a run cover it.
func TestSeries(t *testing.T) {
	t.Parallel()
	o := small(newFake(t, nil).url)
	o.Rate, o.Duration = 50, 800*time.Millisecond
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	sum, at := 0.0, 0.0
	for _, s := range r.Series {
		sum += s.DeliveredPerS * (s.AtS - at)
		at = s.AtS
	}
	if len(r.Series) < 2 || sum < 150 || sum > 170 {
		t.Errorf("the samples add up to %.0f deliveries, want 160: %+v", sum, r.Series)
	}
}
