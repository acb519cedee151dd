package bench

import (
	"cmp"
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
// a reader goroutine, opens and closes them at due, hands over what comes and
// sends what is in out. Nobody else touches it before the run is over.
type client struct {
	*shared
	*meter
	wire  wire
	index int
	first int  // the number of its first channel; the others follow, see channel
	slow  bool // never read from

	state clientState
	due   int64  // when the owner opens or closes the connection
	why   error  // the reason it closes at due
	sent  bool   // this connection's request is out
	opens int    // connections so far
	out   []byte // to be sent, beside the request

	ready    bool          // this connection was told ready
	joined   bool          // any was
	retry    time.Duration // what this connection was told, 0 for nothing
	cursor   []byte        // as the server gave it, "" before the first ready
	accounts []account     // of each channel

	positions [][]byte // of each channel, where the cursor is the client's to build
}

type clientState uint8

const (
	waiting clientState = iota // to open at due
	open                       // to close at due
	over                       // never again
)

func newClient(s *shared, m *meter, index int, at int64) *client {
	n := s.opts.ChannelsPerConnection
	k := &client{
		shared: s, meter: m, wire: newWire(s.opts.Transport), index: index,
		first: s.opts.firstChannel(index), slow: index >= s.opts.Subscribers, due: at,
		accounts: make([]account, n), positions: make([][]byte, n),
	}
	for i := range k.accounts {
		k.accounts[i] = newAccount()
	}
	return k
}

// channel is the number of its i-th channel.
func (k *client) channel(i int) int { return (k.first + i) % k.opts.Channels }

// named is which of its channels has that name, -1 for none.
func (k *client) named(name string) int {
	if len(k.accounts) == 1 {
		return 0
	}
	for i := range k.accounts {
		if k.opts.channelName(k.channel(i)) == name {
			return i
		}
	}
	return -1
}

// request is what the next connection begins with.
func (k *client) request() []byte { return k.wire.request(k, nil) }

// server is where the current connection goes.
func (k *client) server() *target {
	o := k.opts
	return &k.to[(k.index*o.ChannelsPerConnection/o.Channels+k.opens)%len(k.to)]
}

// onOpen begins a connection: it is to be dialled.
func (k *client) onOpen(now int64) {
	k.state = open
	k.opens++
	k.closeAt(now+int64(openTimeout), errSlow)
	k.wire.reset()
	k.ready, k.sent, k.retry, k.out = false, false, 0, k.out[:0]
}

func (k *client) closeAt(at int64, why error) { k.due, k.why = at, why }

// onSent notes that the request is out: all that a slow reader ever does. A poll
// that has a cursor is ready by it.
func (k *client) onSent(now int64) {
	k.sent = true
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.slow:
		k.counts.slowOpen++
		k.onHead()
	case k.opts.Transport == "longpoll" && len(k.cursor) > 0:
		k.onHead()
		k.onReady(true, now)
	}
}

// Why a connection is closed, beside what the network and its wire say.
var (
	errLife  = errors.New("its life is over")
	errMoved = errors.New("the server asked to move")
	errSlow  = errors.New("no response to a subscription within " + openTimeout.String())
)

// onBytes takes what was read; with an error the connection is to be closed.
func (k *client) onBytes(p []byte, now int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts.bytes += int64(len(p))
	return k.wire.take(k, p, now)
}

// onHead notes that the server has answered; mu is held.
func (k *client) onHead() {
	if k.why == errSlow {
		k.due = never
	}
}

// onReady takes the position it was told; mu is held, as below.
func (k *client) onReady(hasCursor bool, now int64) {
	if k.ready {
		k.violation("ready came twice on one connection")
		return
	}
	if !hasCursor {
		k.violation("ready came without a cursor: a client that drops now could not resume")
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

func (k *client) onMove(data []byte, now int64) {
	var move struct{ Within int64 }
	if err := json.Unmarshal(data, &move); err != nil || move.Within < 0 {
		k.violation("move came without a usable within")
		move.Within = 0
	}
	if at := now + rand.Int64N(move.Within*int64(time.Millisecond)+1); at < k.due {
		k.closeAt(at, errMoved)
	}
}

func (k *client) onGap(data []byte) {
	var gap struct {
		Channel string
		Missed  *int64
		Reason  string
	}
	k.counts.gaps++
	if err := json.Unmarshal(data, &gap); err != nil || gap.Reason != "trimmed" && gap.Reason != "reset" {
		k.violation("a gap came without a usable reason")
	}
	missed := int64(-1)
	if gap.Missed != nil {
		missed = max(0, *gap.Missed)
	}
	if i := k.named(gap.Channel); i >= 0 {
		k.accounts[i].onGap(missed, gap.Reason == "reset")
	} else {
		k.violation("a gap came of another channel")
	}
}

// onMessage takes a message of length bytes, of which payload is the beginning,
// and returns which of the client's channels it is of, -1 for one of others.
func (k *client) onMessage(payload []byte, length int, hasID bool, now int64) (i int) {
	if !k.ready {
		k.violation("a message came before ready")
	}
	s, ok := parseStamp(payload, k.run)
	if !ok {
		k.counts.foreign++
		return -1
	}
	if i = s.channel - k.first; i < 0 {
		i += k.opts.Channels
	}
	if i < 0 || i >= len(k.accounts) {
		k.violation("a message of another channel came")
		return -1
	}
	switch {
	case !hasID:
		k.violation("a message came without an id")
	case length != k.opts.Size:
		k.violation(fmt.Sprintf("a payload of %d bytes came, %d were sent", length, k.opts.Size))
	}
	if k.accounts[i].onMessage(s.seq) {
		k.counts.delivered++
		record(k.recent, now-s.at)
	}
	return i
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
		k.due = now + int64(min(cmp.Or(k.retry, defaultRetry), maxRetry))
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
