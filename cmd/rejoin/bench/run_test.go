package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// floorWord as first argument makes this test program the floor's child.
const floorWord = "serve-the-floor"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == floorWord {
		if err := ServeFloor(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // the runs mostly wait
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// fleets are both ways to read, so that the one of other systems is tested here.
var fleets = map[string]func(*shared) *fleet{
	"own": newFleetOf,
	"net": func(s *shared) *fleet { return newFleet(s, 2, newNetReader) },
}

// onFleets runs the load with each fleet on a fresh fake.
func onFleets(t *testing.T, spoil func(*fake), change func(*Options), check func(*testing.T, *Result)) {
	t.Helper()
	for name, fleetOf := range fleets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, spoil)
			o := small(f.url)
			if change != nil {
				change(&o)
			}
			r, err := run(t.Context(), o, fleetOf)
			if err != nil {
				t.Fatal(err)
			}
			check(t, r)
		})
	}
}

// TestFaultsAreCaught: each thing a server may do wrong, at one message of each
// channel, and what the result must say of the 12 subscribers.
func TestFaultsAreCaught(t *testing.T) {
	t.Parallel()
	// writing replaces what is written in place of message 5.
	writing := func(do func(w io.Writer, payload string)) func(*fake) {
		return func(f *fake) {
			f.write = func(w io.Writer, i int, payload string) {
				if i == 5 {
					do(w, payload)
				} else {
					writeMessage(w, i, payload)
				}
			}
		}
	}
	// answering replaces the answer to the 7th publish of all.
	answering := func(status int, appended bool) func(*fake) {
		return func(f *fake) {
			f.publish = func(n int) (int, bool) {
				if n == 7 {
					return status, appended
				}
				return http.StatusCreated, true
			}
		}
	}
	type figures struct {
		expected, delivered, lost, repeated, outOfOrder, gaps, inGaps, again, violations, refused, unknown int64
	}
	tests := []struct {
		name  string
		spoil func(*fake)
		ok    bool
		want  figures
	}{
		{"nothing", nil, true, figures{expected: 160, delivered: 160}},
		{"lost", writing(func(io.Writer, string) {}), false,
			figures{expected: 160, delivered: 148, lost: 12}},
		{"repeated", writing(func(w io.Writer, p string) { writeMessage(w, 5, p); writeMessage(w, 5, p) }), false,
			figures{expected: 160, delivered: 160, repeated: 12}},
		{"a gap tells the loss", writing(func(w io.Writer, _ string) { writeGap(w, 1, "trimmed") }), true,
			figures{expected: 160, delivered: 148, gaps: 12, inGaps: 12}},
		{"a gap of unknown size", writing(func(w io.Writer, _ string) { writeGap(w, "null", "reset") }), true,
			figures{expected: 160, delivered: 148, gaps: 12, inGaps: 12}},
		{"a gap without a loss", writing(func(w io.Writer, p string) { writeGap(w, 1, "trimmed"); writeMessage(w, 5, p) }), false,
			figures{expected: 160, delivered: 160, gaps: 12, violations: 12}},
		{"a gap without a reason", writing(func(w io.Writer, _ string) { writeGap(w, 1, "rain") }), false,
			figures{expected: 160, delivered: 148, gaps: 12, inGaps: 12, violations: 12}},
		{"a reset with all again", writing(func(w io.Writer, p string) {
			writeMessage(w, 5, p)
			writeGap(w, "null", "reset")
			writeMessage(w, 5, p)
		}), true, figures{expected: 160, delivered: 160, gaps: 12, again: 12}},
		{"no id", writing(func(w io.Writer, p string) { fmt.Fprintf(w, "data: %s\n\n", p) }), false,
			figures{expected: 160, delivered: 160, violations: 12}},
		{"cut short", writing(func(w io.Writer, p string) { writeMessage(w, 5, p[:len(p)-1]) }), false,
			figures{expected: 160, delivered: 160, violations: 12}},
		{"another's message", writing(func(w io.Writer, p string) { writeMessage(w, 4, "hello"); writeMessage(w, 5, p) }), true,
			figures{expected: 160, delivered: 160}},
		{"told things not known", writing(func(w io.Writer, p string) {
			fmt.Fprint(w, ":\nevent: rejoin.new\ndata: {}\n\n")
			writeMessage(w, 5, p)
		}), true, figures{expected: 160, delivered: 160}},
		{"ready without an id", func(f *fake) { f.noID = true }, false,
			figures{expected: 160, delivered: 160, violations: 12}},
		{"refused", answering(503, false), true, figures{expected: 156, delivered: 156, refused: 1}},
		{"refused, yet appended", answering(503, true), false,
			figures{expected: 156, delivered: 160, refused: 1, violations: 4}},
		{"unknown, appended", answering(504, true), true, figures{expected: 156, delivered: 160, unknown: 1}},
		{"unknown, not appended", answering(504, false), true, figures{expected: 156, delivered: 156, unknown: 1}},
		{"publish cut", answering(0, true), true, figures{expected: 156, delivered: 160, unknown: 1}},
		{"acknowledged, not appended", answering(201, false), false,
			figures{expected: 160, delivered: 156, lost: 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onFleets(t, tt.spoil, nil, func(t *testing.T, r *Result) {
				got := figures{r.Expected, r.Delivered, r.Lost, r.Repeated, r.OutOfOrder, r.Gaps, r.InGaps, r.AfterReset, r.Violations, r.Refused, r.Unknown}
				if got != tt.want {
					t.Errorf("got  %+v\nwant %+v\nfirst failure %q", got, tt.want, r.Failure)
				}
				if r.OK != tt.ok || (r.Err() == nil) != tt.ok {
					t.Errorf("OK is %t, Err %v; want %t", r.OK, r.Err(), tt.ok)
				}
				if r.Connections != 12 || r.Reconnects != 0 || r.Dropped != 0 {
					t.Errorf("%d connections, %d reconnects, %d dropped", r.Connections, r.Reconnects, r.Dropped)
				}
			})
		})
	}
}

// TestSwapIsCaught: message 5 comes behind message 6.
func TestSwapIsCaught(t *testing.T) {
	t.Parallel()
	swap := func(f *fake) {
		f.write = func(w io.Writer, i int, payload string) {
			held := "id: 1764530000000-5\ndata: "
			switch i {
			case 5: // the stamp is the same but for sequence and time
			case 6:
				writeMessage(w, 6, payload)
				before, rest, _ := strings.Cut(payload, ".6.")
				fmt.Fprintf(w, "%s%s.5.%s\n\n", held, before, rest)
			default:
				writeMessage(w, i, payload)
			}
		}
	}
	onFleets(t, swap, nil, func(t *testing.T, r *Result) {
		if r.OutOfOrder != 12 || r.Lost != 0 || r.Repeated != 0 || r.OK {
			t.Errorf("%d out of order, %d lost, %d repeated, OK %t; want 12, 0, 0, false", r.OutOfOrder, r.Lost, r.Repeated, r.OK)
		}
	})
}

// TestChurn: connections that live a moment and resume get everything once.
func TestChurn(t *testing.T) {
	t.Parallel()
	onFleets(t, nil, func(o *Options) { o.Life, o.Rate = 50*time.Millisecond, 200; o.Duration = 200 * time.Millisecond }, func(t *testing.T, r *Result) {
		if !r.OK || r.Delivered != 160 || r.Reconnects == 0 || r.Dropped != 0 {
			t.Errorf("OK %t, %d delivered, %d reconnects, %d dropped; want all of 160, some reconnects, none dropped: %v", r.OK, r.Delivered, r.Reconnects, r.Dropped, r.Err())
		}
	})
}

// TestChurnLossIsCaught: the server starts a resumed client one message late.
func TestChurnLossIsCaught(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	o := small(f.url)
	o.Life = 50 * time.Millisecond
	f.write = func(w io.Writer, i int, payload string) {
		if i != 9 {
			writeMessage(w, i, payload)
		}
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost != 12 || r.OK {
		t.Errorf("%d lost, OK %t; want 12, false", r.Lost, r.OK)
	}
}

// TestDroppedConnectionsResume: the server ends each connection after three
// messages; that is no fault of the messages.
func TestDroppedConnectionsResume(t *testing.T) {
	t.Parallel()
	onFleets(t, func(f *fake) { f.cutAfter = 3 }, nil, func(t *testing.T, r *Result) {
		if !r.OK || r.Delivered != 160 || r.Dropped < 36 || r.Reconnects < 36 {
			t.Errorf("OK %t, %d delivered, %d dropped, %d reconnects: %v", r.OK, r.Delivered, r.Dropped, r.Reconnects, r.Err())
		}
	})
}

// TestHopping: subscribers change between two servers of one log, and one of
// them dies half way.
func TestHopping(t *testing.T) {
	t.Parallel()
	dies := make(chan struct{})
	f := newFake(t, func(f *fake) {
		f.publish = func(n int) (int, bool) {
			if n == 20 {
				close(dies)
			}
			return http.StatusCreated, true
		}
	})
	second := f.serve(t)
	var dead sync.WaitGroup
	dead.Go(func() {
		<-dies
		second.Listener.Close()
		second.CloseClientConnections()
	})
	o := small(f.url)
	o.URLs = append(o.URLs, second.URL)
	o.Life, o.Rate, o.Duration = 50*time.Millisecond, 100, 400*time.Millisecond
	o.Quiet = 3 * time.Second // until those that met the dead server have come back
	r, err := Run(t.Context(), o)
	dead.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || r.Dropped == 0 || r.Published < 37 || r.Delivered < r.Expected {
		t.Errorf("OK %t, %d dropped, %d published, %d of %d delivered: %v", r.OK, r.Dropped, r.Published, r.Delivered, r.Expected, r.Err())
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	move := func(f *fake) {
		f.write = func(w io.Writer, i int, payload string) {
			writeMessage(w, i, payload)
			if i == 5 {
				fmt.Fprint(w, "event: rejoin.move\ndata: {\"within\":30}\n\n")
			}
		}
	}
	onFleets(t, move, func(o *Options) { o.Rate, o.Duration = 200, 200*time.Millisecond }, func(t *testing.T, r *Result) {
		if !r.OK || r.Moved != 12 || r.Reconnects == 0 || r.Dropped != 0 {
			t.Errorf("OK %t, %d moved, %d reconnects, %d dropped; want true, 12, some, 0", r.OK, r.Moved, r.Reconnects, r.Dropped)
		}
	})
}

// TestSlowReaders are held open and cost nobody anything.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	onFleets(t, nil, func(o *Options) { o.Slow = 3 }, func(t *testing.T, r *Result) {
		if !r.OK || r.Expected != 160 || r.SlowCut != 0 {
			t.Errorf("OK %t, expected %d, %d cut", r.OK, r.Expected, r.SlowCut)
		}
	})
}

func TestRunThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*fake)
		want  string
	}{
		{"not found", func(f *fake) {
			f.subscribe = func(w http.ResponseWriter, _ int) bool { http.Error(w, "no such thing", 404); return true }
		}, "no subscriber got through to http://127.0.0.1:"},
		{"what it said", func(f *fake) {
			f.subscribe = func(w http.ResponseWriter, _ int) bool { http.Error(w, "no such thing", 404); return true }
		}, "404 no such thing"},
		{"error event", func(f *fake) {
			f.subscribe = func(w http.ResponseWriter, _ int) bool {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "event: rejoin.error\ndata: {\"code\":\"too_many\"}\n\n")
				return true
			}
		}, "too_many"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Run(t.Context(), small(newFake(t, tt.spoil).url))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestInterrupt: a run that is interrupted is judged as far as it went.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	f := newFake(t, func(f *fake) {
		f.publish = func(n int) (int, bool) {
			if n == 10 {
				cancel(errors.New("enough"))
			}
			return 201, true
		}
	})
	o := small(f.url)
	o.Duration = time.Hour
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || !r.OK || r.Published < 10 || r.Published > 12 || r.Delivered != r.Expected {
		t.Errorf("%+v", r)
	}
}

// TestInterruptWhileJoining: there is nothing to judge yet.
func TestInterruptWhileJoining(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := newFake(t, func(f *fake) {
		f.subscribe = func(w http.ResponseWriter, n int) bool { // silent for ever
			if n == 12 {
				cancel()
			}
			<-ctx.Done()
			return true
		}
	})
	if _, err := Run(ctx, small(f.url)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// TestProgress: the last look says so, and none comes after it.
func TestProgress(t *testing.T) {
	t.Parallel()
	var all []Status
	o := small(newFake(t, nil).url)
	o.Settle = progressEvery + 50*time.Millisecond
	o.Progress = func(s Status) { all = append(all, s) }
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 || !all[len(all)-1].Done || all[0].Done || all[0].Connected != 12 {
		t.Errorf("looks: %+v", all)
	}
}
