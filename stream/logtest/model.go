package logtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rejoin/stream"
)

// message is one that the log took, by the model's own number: 0, 1, 2 … in the
// order of the answers. The number is its payload.
type message struct {
	number int
	id     stream.ID
	life   uint64
}

// state is what the store should hold: all of it can be saved and come back.
type state struct {
	// chain is every message the store's present knows to have been, oldest
	// first, whether it is still stored or not: what was saved with it,
	// never what was lost.
	chain  []message
	stored int // chain[stored:] is what is stored
	last   stream.ID
	life   uint64
	// gone: the stream's key is not there, only the small key remembers last.
	gone bool
	// small: the small key is there. Without it, last and life are found again
	// from the stream.
	small   bool
	foreign bool // others have written into the stream
	// holed: with the small key lost, a foreign entry was taken for the end, so
	// the counter has a hole.
	holed   bool
	answers map[string]stream.ID
	touched time.Time // last append or delete, for stores with a TTL in the model
}

func (s state) clone() state {
	s.chain = slices.Clone(s.chain)
	s.answers = maps.Clone(s.answers)
	return s
}

// lost is what the model knows of a message that a fault took out of the chain.
type lost uint8

const (
	// open: nothing was appended since. A reader whose own place survived
	// cannot know yet.
	open lost = iota + 1
	// noticed: a server that knew more began a new life; every reader from
	// before must be told.
	noticed
	// restarted: the same, and nobody knew any more: n is 1 again, which a
	// reader from before the first cannot tell from the first time.
	restarted
	// silent: servers that had all forgotten went on as if nothing was. A
	// reader whose own place survived cannot know.
	silent
)

// model is one channel, the servers that append to it and its readers.
type model struct {
	ctx       context.Context
	logs      []stream.Log
	faults    Faults // nil: the store cannot be hurt, and time passes by sleeping
	channel   string
	retention stream.Retention
	rule      Rule

	clock    uint64
	count    int       // messages ever
	messages []message // all of them, by number
	state    state
	saved    [2]saved
	lost     map[int]lost
	known    []stream.ID // by server: what it must know at least
	keys     []key       // idempotency keys used
	readers  []*reader

	// In which step, at the latest, something was lost by a fault, or a new
	// life began that goes on above known ids. What a reader that was up to
	// date after it is told cannot be blamed on that.
	steps, disturbedAt int
	breaks             map[int]bool // the messages that began such lives
	// twice has every id the log ever gave; true if it gave it again, after the
	// first message of that id was lost, which takes a clock set back to the
	// very millisecond. Nobody can tell them apart.
	twice map[stream.ID]bool

	notes []note // what happened, for a failure's report
}

type saved struct {
	state   state
	restore func() error
}

type key struct {
	name    string
	message stream.Message
}

const modelReaders = 3

// modelRetention keeps little, so that everything is soon at its edge.
var modelRetention = stream.Retention{MaxMessages: 6, MaxAge: time.Hour, ChannelTTL: 3 * time.Hour}

// newModel begins a sequence on a channel of its own.
func newModel(ctx context.Context, logs []stream.Log, faults Faults, channel string, rule Rule) *model {
	m := &model{
		ctx: ctx, logs: logs, faults: faults, channel: channel, retention: modelRetention, rule: rule,
		lost: map[int]lost{}, known: make([]stream.ID, len(logs)), twice: map[stream.ID]bool{}, breaks: map[int]bool{},
	}
	m.state.answers = map[string]stream.ID{}
	for range modelReaders {
		m.readers = append(m.readers, &reader{model: m})
	}
	if faults != nil {
		m.setClock(epoch)
	}
	return m
}

// run does the steps and then lets every reader read to the end, twice.
func (m *model) run(ops []op) error {
	for _, o := range ops {
		if err := m.step(o); err != nil {
			return err
		}
	}
	for i, r := range m.readers {
		if !r.joined {
			continue
		}
		for range 2 {
			m.begin()
			if err := m.describe(op{kind: opRead, a: uint8(i)}, r.read(8, false)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *model) step(o op) error {
	m.begin()
	m.note("%v", o)
	server := int(o.a) % len(m.logs)
	switch o.kind {
	case opAppend:
		for range int(o.b)%4 + 1 {
			if err := m.append(server); err != nil {
				return m.describe(o, err)
			}
		}
		return nil
	case opRepeat:
		return m.describe(o, m.repeat(server, int(o.b)))
	case opRead:
		return m.describe(o, m.readers[int(o.a)%modelReaders].read(int(o.b)%5+1, o.c%2 == 1))
	case opJoin:
		return m.describe(o, m.readers[int(o.a)%modelReaders].join(o.b%3 == 2))
	case opDelete:
		return m.describe(o, m.delete(server))
	case opTrim:
		return m.describe(o, m.trim(int(o.b)%6))
	case opClock:
		m.moveClock(o.b, o.c)
		return nil
	case opForget:
		m.faults.Forget(m.logs[server], m.channel)
		m.known[server] = stream.ID{}
		return nil
	case opLoseMessages:
		m.state.stored, m.state.gone, m.state.foreign = len(m.state.chain), true, false
		return m.describe(o, first(m.faults.LoseMessages(m.channel), m.found()))
	case opLoseState:
		m.state.small = false
		return m.describe(o, first(m.faults.LoseState(m.channel), m.found()))
	case opWipe:
		m.replace(state{answers: map[string]stream.ID{}})
		return m.describe(o, m.faults.Wipe(m.channel))
	case opSave:
		restore, err := m.faults.Save(m.channel)
		m.saved[int(o.a)%2] = saved{m.state.clone(), restore}
		return m.describe(o, err)
	case opRestore:
		s := m.saved[int(o.a)%2]
		if s.restore == nil {
			return nil
		}
		m.replace(s.state.clone())
		return m.describe(o, s.restore())
	case opForeign:
		m.state.foreign = true
		id := stream.ID{} // the store's own choice
		if o.b%3 != 0 {
			id.MS = max(m.clock, m.state.last.MS) + uint64(o.b%7)
		}
		return m.describe(o, first(m.faults.AddForeign(m.channel, id), m.found()))
	}
	return fmt.Errorf("no such step: %v", o.kind)
}

// begin begins a step: what time alone does has happened by then.
func (m *model) begin() {
	m.steps++
	m.expire()
}

func (m *model) describe(o op, err error) error {
	if err != nil {
		return fmt.Errorf("%v: %w", o, err)
	}
	return nil
}

// note is a line of what happened, put into words only when a failure asks.
type note struct {
	format string
	args   []any
}

func (m *model) note(format string, args ...any) {
	m.notes = append(m.notes, note{format, args})
}

// story is what happened.
func (m *model) story() string {
	var b strings.Builder
	for _, n := range m.notes {
		fmt.Fprintf(&b, "\t"+n.format+"\n", n.args...)
	}
	return b.String()
}

func (m *model) setClock(ms uint64) {
	m.clock = ms
	for _, l := range m.logs {
		m.faults.SetClock(l, ms)
	}
}

// moveClock moves by a few milliseconds forth, mostly; also back, and by as much
// as a clock that was never set is wrong. A clock that cannot be set moves on by
// a while: up to a fifth of the age, sometimes past all of it.
func (m *model) moveClock(how, far uint8) {
	if m.faults == nil {
		d := time.Duration(far) * m.retention.MaxAge / 1024
		if how%8 == 0 {
			d = time.Duration(far%8) * m.retention.ChannelTTL / 4
		}
		time.Sleep(d)
		m.note("  the clock moves by %v", d)
		return
	}
	d := int64(far % 12)
	switch how % 16 {
	case 0, 1, 2:
		d = -d
	case 3:
		d = -int64(far) * 1000
	case 4:
		d = int64(far) * 1000
	}
	m.setClock(uint64(int64(m.clock) + d))
	m.note("  the clock moves by %d ms to +%d", d, int64(m.clock)-epoch)
}

// expire forgets the channel when it has been silent for its time.
func (m *model) expire() {
	s := &m.state
	if m.faults != nil || s.last.IsZero() {
		return
	}
	if now := m.logs[0].Now(); len(m.served()) == 0 && !now.Before(s.touched.Add(m.retention.ChannelTTL)) {
		m.note("  the channel is forgotten")
		m.replace(state{answers: s.answers})
		clear(m.known)
	}
}

// replace puts another state in the store's place: what is in the chain now and
// not in the other is lost by a fault; what comes back is not lost any more.
func (m *model) replace(s state) {
	has := map[int]bool{}
	for _, msg := range s.chain {
		has[msg.number] = true
		delete(m.lost, msg.number)
	}
	any := false
	for _, msg := range m.state.chain {
		if !has[msg.number] {
			m.lost[msg.number] = open
			any = true
		}
	}
	for n, l := range m.lost {
		if l == noticed || l == restarted { // what told of it may be lost itself
			m.lost[n] = open
		}
	}
	if m.state.last != s.last || len(m.state.chain) != len(s.chain) || any {
		m.disturbedAt = m.steps
	}
	m.state = s
}

// append appends one message and checks its id against the rule of the append.
func (m *model) append(server int) error {
	s := &m.state
	msg := stream.Message{Channel: m.channel, Payload: strconv.Itoa(m.count)}
	if m.count%3 == 0 {
		msg.IdempotencyKey = "k" + msg.Payload
		m.keys = append(m.keys, key{msg.IdempotencyKey, msg})
	}
	k := m.logs[server].Known(m.channel)
	if k.Less(m.known[server]) {
		return fmt.Errorf("server %d knows %v, it was answered or has read %v", server, k, m.known[server])
	}
	a, err := m.logs[server].Append(m.ctx, msg)
	if err != nil {
		return err
	}
	id := a.ID
	m.note("  server %d, which knows %s, appends %d as %s", server, short(k), m.count, short(id))

	clock := m.clock
	if m.faults == nil {
		clock = stream.AtTime(m.logs[0].Now()).MS
	}
	renewed := s.last.IsZero() || k.MS > s.last.MS || k.MS >= s.life && k.N > s.last.N
	want := stream.ID{MS: max(clock, s.last.MS), N: s.last.N + 1}
	if renewed {
		want = stream.ID{MS: max(clock, s.last.MS+1), N: max(s.last.N, k.N) + 1}
		if k.MS <= clock+60_000 {
			want.MS = max(want.MS, k.MS+1)
		}
	}
	exact := !s.foreign && (m.faults != nil || !renewed) // foreign entries push the ms on
	switch {
	case a.Replayed:
		return fmt.Errorf("%v is a replay", id)
	case id.N != want.N || exact && id.MS != want.MS || id.MS < want.MS:
		return fmt.Errorf("server %d, which knows %v, with the clock at %d, appends %v after %v of life %d, want %v", server, k, clock, id, s.last, s.life, want)
	}

	if renewed {
		s.life = id.MS
		if id.N > 1 {
			m.disturbedAt, m.breaks[m.count] = m.steps, true
		}
	}
	for n, l := range m.lost {
		if l == open {
			switch {
			case !renewed:
				m.lost[n] = silent
			case id.N == 1:
				m.lost[n] = restarted
			default:
				m.lost[n] = noticed
			}
		}
	}
	m.taken(id)
	if s.gone {
		s.stored = len(s.chain)
	}
	s.gone, s.small = false, true
	s.chain = append(s.chain, message{m.count, id, s.life})
	s.last = id
	s.touched = m.logs[0].Now()
	if msg.IdempotencyKey != "" {
		s.answers[msg.IdempotencyKey] = id
	}
	m.known[server] = id
	m.messages = append(m.messages, s.chain[len(s.chain)-1])
	m.count++
	return nil
}

// taken notes an id as given, and whether it was before.
func (m *model) taken(id stream.ID) {
	_, before := m.twice[id]
	m.twice[id] = before
}

// repeat sends a message with an idempotency key again: as it was, or changed.
func (m *model) repeat(server, which int) error {
	if len(m.keys) == 0 || m.faults == nil { // keys end by time there
		return nil
	}
	k := m.keys[which%len(m.keys)]
	id, ok := m.state.answers[k.name]
	if !ok {
		return nil // lost with the store: it may be appended anew
	}
	a, err := m.logs[server].Append(m.ctx, k.message)
	if err != nil || a != (stream.Appended{ID: id, Replayed: true}) {
		return fmt.Errorf("the repeat of %s is answered %+v, %v, want a replay of %v", k.message.Payload, a, err, id)
	}
	k.message.Payload += "!"
	if a, err := m.logs[server].Append(m.ctx, k.message); !errors.Is(err, stream.ErrConflict) {
		return fmt.Errorf("the key of another message: %+v, %v, want ErrConflict", a, err)
	}
	return nil
}

func (m *model) delete(server int) error {
	if s := &m.state; !s.last.IsZero() {
		s.stored = len(s.chain)
		s.touched, s.small = m.logs[0].Now(), true
	}
	return m.logs[server].Delete(m.ctx, m.channel)
}

// trim leaves the newest few of what is stored.
func (m *model) trim(keep int) error {
	s := &m.state
	if len(s.chain)-s.stored <= keep {
		return nil
	}
	s.stored = len(s.chain) - keep
	oldest := stream.ID{MS: s.last.MS + 1}
	if keep > 0 {
		oldest = s.chain[s.stored].id
	}
	m.note("  only those from %s stay", short(oldest))
	return first(m.faults.Trim(m.channel, oldest), m.found())
}

// found looks up last and life when the small key is not there to tell them.
// With an entry of ours in the stream, or the empty stream, nothing is lost;
// without is a wipe. Foreign entries may be taken for the end, and the life is a
// guess without an entry.
func (m *model) found() error {
	s := &m.state
	if s.small || s.last.IsZero() {
		return nil
	}
	p, err := m.logs[0].Read(m.ctx, stream.Query{Channel: m.channel, After: stream.MaxID, Limit: 1})
	if err != nil {
		return err
	}
	m.raise(0, p.Last)
	bare := s.stored == len(s.chain)
	if bare && (s.gone && !s.foreign || s.foreign && p.Last.IsZero()) {
		m.note("  which is a wipe")
		m.replace(state{answers: s.answers, foreign: s.foreign})
		if !p.Last.IsZero() {
			return fmt.Errorf("the last id is %v, and nothing is left to tell it", p.Last)
		}
		return nil
	}
	if p.Last != s.last && !s.foreign {
		return fmt.Errorf("the last id is %v, it was %v", p.Last, s.last)
	}
	if p.Life != s.life && !bare {
		return fmt.Errorf("the life is %v, it was %v", p.Life, s.life)
	}
	if bare || p.Last != s.last {
		m.disturbedAt = m.steps
	}
	if p.Last != s.last {
		s.holed = true
		m.taken(p.Last)
	}
	s.last, s.life = p.Last, p.Life
	return nil
}

// raise notes what a server has read.
func (m *model) raise(server int, id stream.ID) {
	if m.known[server].Less(id) {
		m.known[server] = id
	}
}

// served is what a reader may be given: of what is stored, the newest by n and
// by age.
func (m *model) served() []message {
	s := &m.state
	list := s.chain[s.stored:]
	for len(list) > 0 {
		old := list[0].id.N+uint64(m.retention.MaxMessages) <= s.last.N
		if m.faults == nil {
			old = old || !m.logs[0].Now().Before(list[0].id.Time().Add(m.retention.MaxAge))
		}
		if !old {
			break
		}
		list = list[1:]
	}
	return list
}

// short prints an id relative to the epoch.
type short stream.ID

func (s short) String() string {
	if s.MS < epoch/2 {
		return stream.ID(s).String()
	}
	return fmt.Sprintf("%+d-%d", int64(s.MS)-epoch, s.N)
}
