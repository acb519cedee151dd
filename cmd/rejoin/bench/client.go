package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// never is a time that does not come.
const never = math.MaxInt64

// Bounds of one connection.
const (
	openTimeout  = 10 * time.Second // from dialling to the response's head
	defaultRetry = time.Second      // until the server sent a retry: field
	maxRetry     = 30 * time.Second
)

// shared is what all clients of a run know.
type shared struct {
	opts  *Options
	to    []target
	run   string
	now   func() int64 // ns on the run's clock
	churn atomic.Bool  // connections age from now on
	end   atomic.Int64 // when the ramp down began, 0 before
}

// client is one subscriber and its connections, one after the other. Its owner,
// a reader goroutine, opens and closes them at due and hands over what comes. Nobody else touches it before the run is over.
type client struct {
	*shared
	*meter
	index   int
	channel int
	slow    bool // never read from

	state clientState
	due   int64 // when the owner opens or closes the connection
	why   error // the reason it closes at due
	sent  bool  // this connection's request is out
	opens int   // connections so far

	response response
	events   events
	ready    bool   // this connection was told ready
	joined   bool   // any was
	lastID   []byte // Last-Event-ID, "" before the first ready
	account  account
	detail   []byte // the beginning of an answer that is not a stream
}

type clientState uint8

const (
	waiting clientState = iota // to open at due
	open                       // to close at due
	over                       // never again
)

func newClient(s *shared, m *meter, index int, at int64) *client {
	return &client{
		shared: s, meter: m, index: index, channel: index % s.opts.Channels,
		slow: index >= s.opts.Subscribers, due: at, account: newAccount(),
	}
}

// request is the GET of the next connection.
func (k *client) request() []byte {
	to := k.server()
	b := append([]byte("GET "), to.path...)
	b = append(b, "/v1/sse?channel="...)
	b = append(b, k.opts.channelName(k.channel)...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, to.host...)
	b = append(b, "\r\nAccept: text/event-stream\r\nCache-Control: no-cache\r\n"...)
	if len(k.lastID) > 0 {
		b = append(b, "Last-Event-ID: "...)
		b = append(b, k.lastID...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// server is where the current connection goes.
func (k *client) server() *target { return &k.to[(k.index/k.opts.Channels+k.opens)%len(k.to)] }

// onOpen begins a connection: it is to be dialled.
func (k *client) onOpen(now int64) {
	k.state = open
	k.opens++
	k.closeAt(now+int64(openTimeout), errSlow)
	k.response.reset()
	k.events.reset()
	k.ready, k.sent, k.detail = false, false, k.detail[:0]
}

func (k *client) closeAt(at int64, why error) { k.due, k.why = at, why }

// onSent notes that the request is out: all that a slow reader ever does.
func (k *client) onSent() {
	k.sent = true
	if k.slow && k.why == errSlow {
		k.due = never
	}
	if k.slow {
		k.mu.Lock()
		k.counts.slowOpen++
		k.mu.Unlock()
	}
}

// Why a connection is closed, beside what the network says.
var (
	errLife   = errors.New("its life is over")
	errMoved  = errors.New("the server asked to move")
	errSlow   = errors.New("no response to a subscription within " + openTimeout.String())
	errEnded  = errors.New("the server ended the response")
	errRefuse = errors.New("the server did not answer with an event stream")
)

// onBytes takes what was read; with an error the connection is to be closed.
func (k *client) onBytes(p []byte, now int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts.bytes += int64(len(p))
	for {
		wasHead := !k.response.headDone()
		body, rest, err := k.response.next(p)
		if err != nil {
			k.counts.violations++
			return err
		}
		if wasHead && k.response.headDone() {
			k.onHead()
		}
		for len(body) > 0 && k.response.status == 200 {
			var ok bool
			if body, ok = k.events.next(body); ok {
				if err := k.onEvent(&k.events.event, now); err != nil {
					return err
				}
			}
		}
		if k.response.headDone() && k.response.status != 200 {
			k.detail = append(k.detail, body[:min(len(body), 200-len(k.detail))]...)
		}
		if k.response.done() {
			if k.response.status != 200 {
				return fmt.Errorf("%w: %d %s", errRefuse, k.response.status, k.detail)
			}
			return errEnded
		}
		if p = rest; len(p) == 0 {
			return nil
		}
	}
}

// onHead checks the head of the response; mu is held.
func (k *client) onHead() {
	if k.why == errSlow {
		k.due = never
	}
	if k.response.status == 200 && !k.response.stream {
		k.violation("a subscription was answered 200, but its Content-Type is not text/event-stream")
	}
}

// onEvent takes one event; mu is held.
func (k *client) onEvent(v *event, now int64) error {
	if v.hasID {
		k.lastID = append(k.lastID[:0], v.id...)
	}
	if !v.hasData {
		return nil
	}
	switch string(v.name) {
	case "":
		k.onMessage(v, now)
	case "rejoin.ready":
		k.onReady(v, now)
	case "rejoin.gap":
		k.onGap(v)
	case "rejoin.move":
		var move struct{ Within int64 }
		if err := json.Unmarshal(v.data, &move); err != nil || move.Within < 0 {
			k.violation("rejoin.move without a usable within")
			move.Within = 0
		}
		if at := now + rand.Int64N(move.Within*int64(time.Millisecond)+1); at < k.due {
			k.closeAt(at, errMoved)
		}
	case "rejoin.error", "rejoin.expired":
		return fmt.Errorf("the server sent %s %s", v.name, clip(v.data))
	}
	return nil // names not known are to be ignored
}

func (k *client) onReady(v *event, now int64) {
	if k.ready {
		k.violation("rejoin.ready came twice on one connection")
		return
	}
	if !v.hasID {
		k.violation("rejoin.ready came without an id: a client that drops now could not resume")
	}
	k.ready = true
	k.counts.open++
	if k.joined {
		k.counts.reconnects++
	} else {
		k.joined = true
		k.counts.joined++
	}
	if k.churn.Load() && k.opts.Life > 0 && k.end.Load() == 0 {
		k.closeAt(now+int64(k.opts.Life), errLife)
	}
}

func (k *client) onGap(v *event) {
	var gap struct {
		Channel string
		Missed  *int64
		Reason  string
	}
	k.counts.gaps++
	if err := json.Unmarshal(v.data, &gap); err != nil || gap.Reason != "trimmed" && gap.Reason != "reset" {
		k.violation("rejoin.gap without a usable reason")
	}
	missed := int64(-1)
	if gap.Missed != nil {
		missed = max(0, *gap.Missed)
	}
	k.account.onGap(missed, gap.Reason == "reset")
}

func (k *client) onMessage(v *event, now int64) {
	if !k.ready {
		k.violation("a message came before rejoin.ready")
	}
	s, ok := parseStamp(v.data, k.run)
	if !ok {
		k.counts.foreign++
		return
	}
	switch {
	case !v.hasID:
		k.violation("a message came without an id")
	case s.channel != k.channel:
		k.violation("a message of another channel came")
		return
	case v.dataLen != k.opts.Size:
		k.violation(fmt.Sprintf("a payload of %d bytes came, %d were sent", v.dataLen, k.opts.Size))
	}
	if k.account.onMessage(s.seq) {
		k.counts.delivered++
		delay := now - s.at
		record(k.late, delay)
		k.newest = max(k.newest, delay)
	}
}

// violation counts a breach of the contract; mu is held.
func (k *client) violation(what string) {
	k.counts.violations++
	k.note(what)
}

// onClose ends a connection for the reason given and sets when the next opens.
func (k *client) onClose(now int64, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ready {
		k.counts.open--
	}
	k.state = over
	k.due = never
	if k.slow && k.sent {
		k.counts.slowOpen--
		if k.end.Load() == 0 {
			k.counts.slowCut++
		}
		return
	}
	if k.end.Load() != 0 {
		return
	}
	k.state = waiting
	switch {
	case errors.Is(why, errLife):
		k.due = now
	case errors.Is(why, errMoved):
		k.due = now
		k.counts.moved++
	default:
		k.counts.dropped++
		k.note(why.Error())
		retry := k.events.retry
		if retry == 0 {
			retry = defaultRetry
		}
		k.due = now + int64(min(retry, maxRetry))
	}
}

// onChurn spreads the first closings over one life.
func (k *client) onChurn(now int64) {
	if k.state == open && k.ready {
		k.closeAt(now+rand.Int64N(int64(k.opts.Life)), errLife)
	}
}

// onEnd gives the client its place in the ramp down.
func (k *client) onEnd() {
	if k.state == waiting {
		k.state, k.due = over, never
		return
	}
	if k.state == open {
		k.closeAt(k.end.Load()+int64(float64(k.index)/k.opts.ConnectRate*1e9), errLife)
	}
}
