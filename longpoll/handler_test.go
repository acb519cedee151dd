package longpoll

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

func keep(n int) memlog.Options {
	return memlog.Options{Retention: func(string) stream.Retention {
		return stream.Retention{MaxMessages: n, MaxAge: time.Hour, ChannelTTL: time.Hour}
	}}
}

// A client without a cursor is told where it is, at once, and no message.
// Holds G107.
func TestFirstPoll(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		last := w.publish("used", "old")
		time.Sleep(time.Second)
		for query, cursor := range map[string]string{"channel=used": last.String(), "channel=never": "1-0"} {
			took, a := w.park(query, "").answer()
			require.Zero(t, took)
			require.Equal(t, cursor, a.Cursor)
			require.Empty(t, a.Messages)
			require.Empty(t, a.Gaps)
			require.Empty(t, a.Ended)
			require.Equal(t, "live", a.State)
		}
		_, a := w.park("channel=used&channel=never", "").answer()
		require.Regexp(t, "^1~", a.Cursor)
		require.Equal(t, "old", w.poll("channel=used&rewind=5", "").payloads())
		require.Equal(t, "old", w.poll("channel=used", "earliest").payloads())
		took, a := w.park("channel=never&rewind=5", "").answer()
		require.Zero(t, took, "without a cursor a poll is never held")
		require.Equal(t, "1-0", a.Cursor)
	})
}

// What the cursor lacks must be told its position before it can be held.
func TestCursorThatLacksAChannel(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		w.publish("b", "old")
		a := w.poll("channel=a&channel=c", "")
		took, ab := w.park("channel=a&channel=b&channel=c", a.Cursor).answer()
		require.Zero(t, took)
		require.Empty(t, ab.Messages)
		w.publish("b", "new")
		require.Equal(t, "new", w.poll("channel=a&channel=b&channel=c", ab.Cursor).payloads())
	})
}

// Holds G107.
func TestTimeout(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		at := w.publish("a", "1").String()
		for query, want := range map[string]time.Duration{
			"": 25 * time.Second, "&timeout=1s": time.Second, "&timeout=60s": time.Minute, "&timeout=1500ms": 1500 * time.Millisecond,
			"&timeout=9s&wait=1s": 9 * time.Second, // wait is for gathering alone
		} {
			took, a := w.park("channel=a"+query, at).answer()
			require.Equal(t, want, took, query)
			require.Empty(t, a.Messages)
			require.Equal(t, at, a.Cursor)
			require.Equal(t, "live", a.State)
		}
		// From before everything, to a channel that has nothing: the position
		// found counts, not the one asked for.
		_, a := w.park("channel=empty", "0-0").answer()
		require.Equal(t, "1-0", a.Cursor)
	})
}

// Holds G107.
func TestAnsweredByNews(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		at := w.publish("a", "1").String()
		p := w.park("channel=a", at)
		time.Sleep(10 * time.Second)
		id := w.append(stream.Message{Channel: "a", Payload: "2", Event: "e", Key: "k"})
		took, a := p.answer()
		require.Equal(t, 10*time.Second, took)
		require.Equal(t, []message{{"a", id.String(), id.Time().Format(stream.TimeFormat), "2", "e", "k"}}, a.Messages)
		require.Equal(t, id.String(), a.Cursor)

		// Between two polls.
		w.publish("a", "3")
		took, a = w.park("channel=a", a.Cursor).answer()
		require.Zero(t, took)
		require.Equal(t, "3", a.payloads())
		// Asked again with the same cursor, as after an answer that was lost.
		require.Equal(t, "2 3", w.poll("channel=a", at).payloads())
	})
}

// Holds G107.
func TestWaitGathers(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		at := w.publish("a", "0").String()
		p := w.park("channel=a&wait=500ms", at)
		time.Sleep(2 * time.Second)
		for i := range 6 { // the last comes as the time is up
			w.publish("a", strconv.Itoa(i+1))
			time.Sleep(99 * time.Millisecond)
		}
		took, a := p.answer()
		require.Equal(t, 2500*time.Millisecond, took)
		require.Equal(t, "1 2 3 4 5 6", a.payloads())

		// What is there already waits too; a full answer does not.
		took, _ = w.park("channel=a&wait=1s", at).answer()
		require.Equal(t, time.Second, took)
		took, a = w.park("channel=a&wait=1s&limit=6", at).answer()
		require.Zero(t, took)
		require.Equal(t, "1 2 3 4 5 6", a.payloads())
		// Gathering does not outlive the poll.
		p = w.park("channel=a&wait=1s&timeout=1s", a.Cursor)
		time.Sleep(900 * time.Millisecond)
		w.publish("a", "7")
		took, _ = p.answer()
		require.Equal(t, time.Second, took)
	})
}

// Any limit, any number of channels: each message once, the oldest of all first.
// Holds G108.
func TestLimitResumesExactly(t *testing.T) {
	bubble(t, keep(100_000), func(t *testing.T, w *world) {
		const total = 700
		channels := []string{"a", "b", "c"}
		for i := range total {
			w.publish(channels[i*7%11%3], strconv.Itoa(i))
			if i%10 == 0 {
				time.Sleep(time.Millisecond) // ids of one millisecond have no order among channels
			}
		}
		query := "channel=a&channel=b&channel=c"
		for _, limit := range []int{1, 2, 7, 64, 65, 99, 100, 101, 333, 1000} {
			cursor, last, n := "earliest", "", 0
			seen := map[string]bool{}
			for n < total {
				a := w.poll(query+"&limit="+strconv.Itoa(limit), cursor)
				require.Len(t, a.Messages, min(limit, total-n), "an answer is filled from what there is")
				require.Empty(t, a.Gaps)
				for _, m := range a.Messages {
					require.False(t, seen[m.Payload], "twice: %s", m.Payload)
					seen[m.Payload] = true
					at, _, _ := strings.Cut(m.ID, "-")
					require.LessOrEqual(t, last, at, "older after newer")
					last = at
					n++
				}
				cursor = a.Cursor
			}
		}
		a := w.poll("channel=a&limit=1000", "earliest")
		b := w.poll("channel=a&limit=3", a.Messages[4].ID)
		require.Equal(t, a.Messages[5:8], b.Messages, "an id of a message is a cursor")
		require.Len(t, w.poll(query, "0-0").Messages, 100, "the default")
	})
}

// An answer is at most 1 MiB, unless its one message is larger.
// Holds G108.
func TestBytesResumeExactly(t *testing.T) {
	w := newWorld(t, Options{}, keep(1000))
	var want []string
	for i, size := range []int{300 << 10, 400 << 10, 1 << 20, 2 << 20, 10, 900 << 10, 500 << 10, 500 << 10} {
		payload := strings.Repeat(string(rune('a'+i)), size)
		w.publish("a", payload)
		want = append(want, payload)
	}
	w.publish("a", strings.Repeat("\x01", 300<<10)) // six bytes each in JSON
	want = append(want, strings.Repeat("\x01", 300<<10))
	var got []string
	var counts []int
	cursor := "earliest"
	for len(got) < len(want) {
		resp, body := w.get("channel=a", cursor)
		require.Equal(t, 200, resp.StatusCode)
		a := parse(t, body)
		if len(a.Messages) > 1 {
			require.LessOrEqual(t, len(body), 1<<20)
		}
		for _, m := range a.Messages {
			got = append(got, m.Payload)
		}
		counts = append(counts, len(a.Messages))
		cursor = a.Cursor
	}
	require.True(t, strings.Join(got, "|") == strings.Join(want, "|"))
	require.Equal(t, []int{2, 1, 1, 2, 2, 1}, counts)
}

// Holds G109.
func TestGaps(t *testing.T) {
	bubble(t, keep(3), func(t *testing.T, w *world) {
		first := w.publish("a", "1")
		for i := range 9 {
			w.publish("a", strconv.Itoa(i+2))
		}
		at := w.poll("channel=a&channel=b&channel=c", "earliest").Cursor
		missed, next := 6, w.poll("channel=a", "earliest").Messages[0].ID
		a := w.poll("channel=a", first.String())
		require.Equal(t, []gap{{"a", first.String(), "trimmed", &next, &missed}}, a.Gaps)
		require.Equal(t, "8 9 10", a.payloads())

		// A gap is told with the message behind it, and once.
		a = w.poll("channel=a&limit=1", first.String())
		require.Len(t, a.Gaps, 1)
		require.Equal(t, "8", a.payloads())
		a = w.poll("channel=a&limit=1", a.Cursor)
		require.Empty(t, a.Gaps)
		require.Equal(t, "9", a.payloads())

		// With nothing behind it, it moves the cursor to the end at once.
		before := a.Cursor
		require.NoError(t, w.log.Delete(t.Context(), "a"))
		synctest.Wait()
		took, a := w.park("channel=a", before).answer()
		require.Zero(t, took)
		missed = 1
		require.Equal(t, []gap{{"a", before, "trimmed", nil, &missed}}, a.Gaps)
		took, a = w.park("channel=a", a.Cursor).answer()
		require.Equal(t, 25*time.Second, took)
		require.Empty(t, a.Gaps)

		// Of another log.
		a = w.poll("channel=a", "99-7")
		require.Len(t, a.Gaps, 1)
		require.Equal(t, "reset", a.Gaps[0].Reason)
		require.Nil(t, a.Gaps[0].Missed)

		// In two channels of three, where only one fits: each told once, at its place.
		for i := range 5 {
			w.publish("b", "b"+strconv.Itoa(i))
			w.publish("c", "c"+strconv.Itoa(i))
		}
		var told []string
		var got []string
		for range 6 {
			a = w.poll("channel=a&channel=b&channel=c&limit=1", at)
			for _, g := range a.Gaps {
				told = append(told, fmt.Sprint(g.Channel, " ", *g.Missed))
			}
			got = append(got, a.payloads())
			at = a.Cursor
		}
		require.ElementsMatch(t, []string{"b 2", "c 2"}, told)
		require.ElementsMatch(t, []string{"b2", "b3", "b4", "c2", "c3", "c4"}, got)
	})
}

// Holds G109.
func TestEnded(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		last := w.publish("a", "1")
		p := w.park("channel=a", last.String())
		time.Sleep(time.Second)
		end := w.end("a")
		took, a := p.answer()
		require.Equal(t, time.Second, took)
		require.Equal(t, []string{"a"}, a.Ended)
		require.Empty(t, a.Messages)
		require.Equal(t, end.String(), a.Cursor)

		// Nothing will come: no poll is held for it.
		for _, cursor := range []string{a.Cursor, ""} {
			took, a = w.park("channel=a", cursor).answer()
			require.Zero(t, took)
			require.Equal(t, []string{"a"}, a.Ended)
			require.Equal(t, end.String(), a.Cursor)
		}
		require.Equal(t, "1", w.poll("channel=a", "earliest").payloads())

		// One of two: told once by an answer, then it is no news.
		at := w.poll("channel=a&channel=b", "earliest")
		require.Equal(t, []string{"a"}, at.Ended)
		took, a = w.park("channel=a&channel=b", at.Cursor).answer()
		require.Equal(t, 25*time.Second, took)
		require.Equal(t, []string{"a"}, a.Ended)
		require.Equal(t, at.Cursor, a.Cursor)

		// With a message, which fills the answer.
		w.append(stream.Message{Channel: "b", Payload: "bye", End: stream.EndMessage})
		took, a = w.park("channel=a&channel=b&limit=1", at.Cursor).answer()
		require.Zero(t, took)
		require.Equal(t, "bye", a.payloads())
		require.ElementsMatch(t, []string{"a", "b"}, a.Ended)
	})
}

// With the log away a poll is held as ever; it says stale and gives the cursor
// back. One without a cursor has nothing to be answered with.
// Holds G109.
func TestLogAway(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		at := w.publish("a", "1").String()
		w.poll("channel=a&timeout=1s", at)
		held := w.park("channel=a", at)
		synctest.Wait()
		w.log.cut()
		for _, p := range []*parked{held, w.park("channel=a&timeout=5s", at), w.park("channel=cold&timeout=5s", at), w.park("channel=cold&timeout=1s", at)} {
			_, a := p.answer()
			require.Equal(t, "stale", a.State)
			require.Equal(t, at, a.Cursor)
			require.Empty(t, a.Messages)
		}
		many := w.cursorOf("cold", "colder")
		_, a := w.park("channel=cold&channel=colder", many).answer()
		require.Equal(t, many, a.Cursor)
		require.Equal(t, "stale", a.State)
		// What is in memory is given.
		took, a := w.park("channel=a", "1-0").answer()
		require.Zero(t, took)
		require.Equal(t, "1", a.payloads())
		require.Equal(t, at, a.Cursor)
		require.Equal(t, "stale", a.State)

		began := time.Now()
		resp, body := w.get("channel=cold&timeout=7s", "")
		require.Equal(t, 503, resp.StatusCode, body)
		require.Equal(t, 7*time.Second, time.Since(began))

		p := w.park("channel=a", at)
		q := w.park("channel=cold", "")
		time.Sleep(5 * time.Second)
		w.publish("a", "2")
		w.log.mend()
		_, a = p.answer()
		require.Equal(t, "2", a.payloads())
		require.Equal(t, "live", a.State)
		took, a = q.answer()
		require.Less(t, took, 6*time.Second)
		require.Equal(t, "1-0", a.Cursor)
	})
}

// cursorOf is a cursor before the first of each channel.
func (w *world) cursorOf(channels ...string) string {
	p := stream.NewPositions(channels)
	for _, c := range channels {
		p.Set(c, stream.BeforeFirst)
	}
	return p.String()
}

// A server that goes answers each poll at a moment of its own.
// Holds G111.
func TestDrain(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		const polls, window = 200, 10 * time.Second
		at := w.publish("a", "1").String()
		w.poll("channel=a", "")
		ended := make(chan time.Duration, polls)
		ask := func() {
			began := time.Now()
			resp, body := w.get("channel=a", at)
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, "close", resp.Header.Get("Connection"), "the next poll is for another server")
			require.Equal(t, at, parse(t, body).Cursor)
			ended <- time.Since(began)
		}
		for range polls {
			go ask()
		}
		synctest.Wait()
		began := time.Now()
		done := make(chan error)
		go func() { done <- w.broker.Drain(t.Context(), window) }()
		synctest.Wait()
		first := w.poll("channel=a", "")
		require.Equal(t, at, first.Cursor, "one that comes late is told its position")
		var early int
		for range polls {
			d := <-ended
			require.LessOrEqual(t, d, window)
			if d < window/2 {
				early++
			}
		}
		require.InDelta(t, polls/2, early, polls/4)
		require.NoError(t, <-done)
		require.LessOrEqual(t, time.Since(began), window)
		ask()
		require.LessOrEqual(t, <-ended, window-time.Since(began)+window)
		w.publish("a", "2")
		require.Equal(t, "2", w.poll("channel=a", at).payloads(), "news is given to the last")
	})
}

// One connection serves one poll after the other.
func TestKeepAlive(t *testing.T) {
	w := newWorld(t, Options{}, keep(1000))
	for range 100 {
		w.publish("a", strings.Repeat("x", 1000))
	}
	for i := range 5 {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
		})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/?channel=a&lastEventId=earliest", nil)
		require.NoError(t, err)
		resp, err := w.client.Do(r)
		require.NoError(t, err)
		require.Empty(t, resp.TransferEncoding)
		require.Greater(t, resp.ContentLength, int64(100_000))
		_, err = resp.Body.Read(make([]byte, 1<<20))
		require.NoError(t, err)
		for err == nil {
			_, err = resp.Body.Read(make([]byte, 1<<20))
		}
		require.NoError(t, resp.Body.Close())
		require.Equal(t, i > 0, reused)
	}
}
