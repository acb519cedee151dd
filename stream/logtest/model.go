package logtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"rejoin/stream"
)

// model is one channel, the servers that append to it and its readers. It says
// of each reader what must be told, except for what is left, where the log
// itself cannot know:
//
//   - A tail was lost, a reader's own entry survived, and servers that had all
//     forgotten went on: silent. The same for a reader from before the first
//     when the channel begins again at n = 1.
//   - The count of what was trimmed, across a roll-back or a new life.
//   - The small key lost with nothing of ours in the stream is a wipe, and where
//     the stream is there but empty its life is a guess.
//   - An id was given twice, by a clock set back to the very millisecond of what
//     was lost; or a foreign entry, the small key being lost, was taken for the
//     channel's end because its n is above ours.
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

	counts counts
	notes  []note // what happened, for a failure's report
}

type saved struct {
	state   state
	restore func() error
}

// counts are what was seen, to show that a model that found nothing saw something.
type counts struct{ steps, messages, trimmed, reset, silent, twice int }

func (c *counts) add(o counts) {
	c.steps += o.steps
	c.messages += o.messages
	c.trimmed += o.trimmed
	c.reset += o.reset
	c.silent += o.silent
	c.twice += o.twice
}

func (c counts) String() string {
	return fmt.Sprintf("%d steps, %d messages; told trimmed %d times, reset %d times; what is left: %d messages lost in silence, %d reads from an id given twice",
		c.steps, c.messages, c.trimmed, c.reset, c.silent, c.twice)
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

// run does the steps and then lets every reader read to the end, one of them
// twice: the second time there is nothing to say.
func (m *model) run(ops []op) error {
	for _, o := range ops {
		if err := m.step(o); err != nil {
			return err
		}
	}
	for i, r := range append(m.readers, m.readers[len(ops)%modelReaders]) {
		if !r.joined {
			continue
		}
		m.begin()
		if err := r.read(8, false); err != nil {
			return fmt.Errorf("reader %d at the end: %w", i, err)
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
		m.takesTime(o)
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
		m.takesTime(o)
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
	m.counts.steps++
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

// takesTime: a loss takes a millisecond at least, but for a clock set back just so.
func (m *model) takesTime(o op) {
	if o.b%8 != 0 {
		m.setClock(m.clock + 1)
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

// short prints an id relative to the epoch.
type short stream.ID

func (s short) String() string {
	if s.MS < epoch/2 {
		return stream.ID(s).String()
	}
	return fmt.Sprintf("%+d-%d", int64(s.MS)-epoch, s.N)
}
