package redislog_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/redislog"
	"rejoin/stream/redislog/redistest"
)

// through opens a log that reaches the server by a proxy.
func through(t *testing.T, s *redistest.Server, o redislog.Options) (*redistest.Proxy, *redislog.Log) {
	t.Helper()
	p := redistest.NewProxy(t, s.Addr)
	o.URL = p.URL()
	return p, open(t, o)
}

// kinds are the kinds of the results' errors, nil for none.
func kinds(results []stream.Result) (all []error) {
	for _, r := range results {
		var kind error
		if e, ok := errors.AsType[*stream.Error](r.Err); ok {
			kind = e.Kind
		}
		all = append(all, kind)
	}
	return all
}

// When the answers to a round are lost, one message of each channel may be in
// the log, and is; those behind it are not attempted, and not there.
// Holds G81.
func TestBatchAnswersLost(t *testing.T) {
	s := startServer(t)
	direct := open(t, redislog.Options{URL: s.URL()})
	p, l := through(t, s, redislog.Options{})
	publish(t, l, "a", "before")
	p.CutReply("evalsha", 1)
	results := l.AppendAll(t.Context(), []stream.Message{
		{Channel: "a", Payload: "1"}, {Channel: "a", Payload: "2", IdempotencyKey: "i"},
		{Channel: "b", Payload: "1"}, {Channel: "a", Payload: "3"}, {Channel: "c", Payload: "1"},
	})
	want := []error{stream.ErrUnknownOutcome, stream.ErrNotAttempted, stream.ErrUnknownOutcome, stream.ErrNotAttempted, stream.ErrUnknownOutcome}
	if got := kinds(results); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for channel, want := range map[string]string{"a": "[before 1]", "b": "[1]", "c": "[1]"} {
		if got := fmt.Sprint(texts(read(t, direct, stream.Query{Channel: channel, Limit: 10}))); got != want {
			t.Errorf("%s holds %s, want %s", channel, got, want)
		}
	}
	// What was not attempted can be sent again.
	if r := l.AppendAll(t.Context(), []stream.Message{{Channel: "a", Payload: "2", IdempotencyKey: "i"}}); r[0].Err != nil || r[0].Replayed {
		t.Errorf("sent again: %+v", r[0])
	}
}

// The second round's answers are lost: the first's stand.
// Holds G81.
func TestBatchSecondRoundLost(t *testing.T) {
	s := startServer(t)
	p, l := through(t, s, redislog.Options{})
	publish(t, l, "a", "before") // Redis has the script
	p.CutReply("second", 1)
	results := l.AppendAll(t.Context(), []stream.Message{
		{Channel: "a", Payload: "first"}, {Channel: "a", Payload: "second"}, {Channel: "a", Payload: "third"}, {Channel: "b", Payload: "first"},
	})
	want := []error{nil, stream.ErrUnknownOutcome, stream.ErrNotAttempted, nil}
	if got := kinds(results); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// A log that is away is waited for once, however many messages there are.
// Holds G84.
func TestBatchWhileAway(t *testing.T) {
	s := startServer(t)
	const timeout = 200 * time.Millisecond
	p, l := through(t, s, redislog.Options{Timeout: timeout})
	publish(t, l, "a", "before")
	ms := make([]stream.Message, 50)
	for i := range ms {
		ms[i] = stream.Message{Channel: fmt.Sprint("c", i%5), Payload: "x"}
	}
	p.Mute(true)
	start := time.Now()
	results := l.AppendAll(t.Context(), ms)
	if took := time.Since(start); took > timeout*3 {
		t.Errorf("it took %v", took)
	}
	for i, kind := range kinds(results) {
		want := stream.ErrNotAttempted
		if i < 5 {
			want = stream.ErrUnknownOutcome
		}
		if kind != want {
			t.Errorf("message %d, sent and not answered: %v, want %v", i, kind, want)
		}
	}
	p.Mute(false)
	s.Kill()
	for i, kind := range kinds(l.AppendAll(t.Context(), ms)) {
		if kind != stream.ErrUnavailable {
			t.Errorf("message %d, nobody there: %v, want ErrUnavailable", i, kind)
		}
	}
}

// A Redis that was started anew does not have the script.
func TestBatchWithoutTheScript(t *testing.T) {
	s, logs := start(t, 1)
	for range 2 {
		s.Do("SCRIPT", "FLUSH")
		var ms []stream.Message
		for i := range 100 {
			ms = append(ms, stream.Message{Channel: fmt.Sprint("c", i%40), Payload: fmt.Sprint(i)})
		}
		for i, r := range logs[0].AppendAll(t.Context(), ms) {
			if r.Err != nil {
				t.Fatalf("message %d: %v", i, r.Err)
			}
		}
	}
	if p := read(t, logs[0], stream.Query{Channel: "c3", Limit: 10}); fmt.Sprint(texts(p)) != "[3 43 83 3 43 83]" {
		t.Errorf("appended %v", texts(p))
	}
}

// A key of the wrong type is its channel's own affair.
func TestBatchWrongType(t *testing.T) {
	s, logs := start(t, 1)
	s.Do("RPUSH", logs[0].StreamKey("a"), "foreign")
	results := logs[0].AppendAll(t.Context(), []stream.Message{{Channel: "a"}, {Channel: "b"}, {Channel: "a"}, {Channel: "b"}})
	want := []error{stream.ErrBroken, nil, stream.ErrBroken, nil}
	if got := kinds(results); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if err := logs[0].Close(); err != nil {
		t.Fatal(err)
	}
	if got := kinds(logs[0].AppendAll(t.Context(), []stream.Message{{Channel: "b"}})); got[0] != stream.ErrClosed {
		t.Errorf("closed: %v", got)
	}
}

// A small batch costs one round trip for each message of the busiest channel.
// Holds G84.
func TestBatchRoundTrips(t *testing.T) {
	s := startServer(t)
	m := &meter{}
	l := open(t, redislog.Options{URL: s.URL(), Meter: m})
	var ms []stream.Message
	for i := range 500 {
		ms = append(ms, stream.Message{Channel: fmt.Sprint("c", i), Payload: "x"})
	}
	l.AppendAll(t.Context(), append(ms, ms[0]))
	if got := m.count("append"); got != 2 {
		t.Errorf("%d round trips, want 2", got)
	}
}

// meter counts round trips.
type meter struct {
	mu    sync.Mutex // guards trips
	trips map[string]int
}

func (m *meter) RoundTrip(op string, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trips == nil {
		m.trips = map[string]int{}
	}
	m.trips[op]++
}

func (m *meter) Error(string, error) {}

func (m *meter) count(op string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trips[op]
}

// In a cluster each partition has its own pipeline, and the list goes from one
// master to the next.
// Holds G90.
func TestBatchAndListInACluster(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	l := open(t, redislog.Options{URL: c.URL()})
	var ms []stream.Message
	var all []string
	for i := range 120 {
		name := fmt.Sprintf("c%03d", i)
		all = append(all, name)
		ms = append(ms, stream.Message{Channel: name, Payload: "1"}, stream.Message{Channel: name, Payload: "2"})
	}
	for i, r := range l.AppendAll(t.Context(), ms) {
		if r.Err != nil || r.ID.N != uint64(i%2+1) {
			t.Fatalf("message %d: %+v", i, r)
		}
	}
	for _, limit := range []int{7, 1000} {
		var got []string
		q := stream.ChannelQuery{Limit: limit}
		for pages := 0; ; pages++ {
			p, err := l.Channels(t.Context(), q)
			if err != nil || len(p.Names) > limit || pages > len(all) {
				t.Fatalf("page %d: %+v %v", pages, p, err)
			}
			got = append(got, p.Names...)
			if q.Cursor = p.Next; q.Cursor == "" {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, all) {
			t.Errorf("by %d: %d names %v", limit, len(got), got)
		}
	}
	// A cursor from before another server took a part over: that is gone over
	// anew.
	p, err := l.Channels(t.Context(), stream.ChannelQuery{Limit: 1000, Cursor: "0.1.1234."})
	fresh, err2 := l.Channels(t.Context(), stream.ChannelQuery{Limit: 1000})
	if err != nil || err2 != nil || !slices.Equal(p.Names, fresh.Names) || len(p.Names) == 0 {
		t.Errorf("%+v %v, want %+v %v", p, err, fresh, err2)
	}
	if _, err := l.Channels(t.Context(), stream.ChannelQuery{Limit: 10, Cursor: "20.1.0."}); !errors.Is(err, stream.ErrListCursor) {
		t.Errorf("a part that there is not: %v", err)
	}
}
