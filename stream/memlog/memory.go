package memlog

import (
	"container/heap"
	"time"

	"rejoin/stream"
)

// node is one message: in its channel's entries, and linked to its neighbours
// in the order of the appends over all channels.
type node struct {
	entry        stream.Entry
	channel      *channel
	older, newer *node
}

// list is the order of the appends. Only its front matters, but a message may
// leave from anywhere when its own channel is trimmed.
type list struct{ first, last *node }

func (l *list) push(n *node) {
	n.older = l.last
	if l.last == nil {
		l.first = n
	} else {
		l.last.newer = n
	}
	l.last = n
}

func (l *list) remove(n *node) {
	if n.older == nil {
		l.first = n.newer
	} else {
		n.older.newer = n.newer
	}
	if n.newer == nil {
		l.last = n.older
	} else {
		n.newer.older = n.older
	}
	n.older, n.newer = nil, nil
}

// push adds the newest message of c.
func (l *Log) push(c *channel, e stream.Entry) {
	n := &node{entry: e, channel: c}
	c.entries = append(c.entries, n)
	l.oldest.push(n)
	l.bytes += int64(e.Bytes())
	if len(c.entries) == 1 {
		l.schedule(c)
	}
}

// pop drops the oldest message of c. There must be one.
func (l *Log) pop(c *channel) {
	n := c.entries[0]
	c.entries[0] = nil
	c.entries = c.entries[1:]
	if len(c.entries) == 0 {
		c.entries = nil
	}
	l.oldest.remove(n)
	l.bytes -= int64(n.entry.Bytes())
}

// makeRoom drops the oldest messages of all channels until m fits, or refuses
// it with nothing dropped.
func (l *Log) makeRoom(e *stream.Entry, m stream.Message, begins bool) error {
	need := int64(e.Bytes())
	if begins {
		need += int64(len(m.Channel) + channelOverhead)
	}
	if m.IdempotencyKey != "" {
		need += answerBytes(m)
	}
	if l.fixed+need > l.opts.MaxBytes {
		return &stream.Error{
			Op: "append", Channel: m.Channel, Kind: stream.ErrFull,
			Hint: "give the in-memory log more bytes, use fewer channel names, or set redis.url",
		}
	}
	for l.bytes+l.fixed+need > l.opts.MaxBytes {
		l.pop(l.oldest.first.channel)
	}
	return nil
}

// sweepBudget is how many channels one append may look at for what is due.
const sweepBudget = 16

// sweep drops what is due by age in channels that nobody asks for, a few at a
// time: memory only. What is served never depends on it.
func (l *Log) sweep(now time.Time) {
	l.fixed -= l.answers.expire(now)
	for range sweepBudget {
		if len(l.due) == 0 || now.Before(l.due[0].due) {
			return
		}
		c := l.due[0]
		if l.lookup(c.name, now) != nil {
			l.schedule(c)
		}
	}
}

// schedule notes anew when something of c is due: its oldest message, or
// without any the channel itself. What comes later than noted is found by sweep
// and noted again; what comes earlier must be noted at once.
func (l *Log) schedule(c *channel) {
	if len(c.entries) > 0 {
		c.due = c.agedAt()
	} else {
		c.due = c.forgetAt()
	}
	heap.Fix(&l.due, c.place)
}

// dueHeap implements [heap.Interface]; the channel that is due first is at 0.
type dueHeap []*channel

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *dueHeap) Push(x any) {
	c := x.(*channel)
	c.place = len(*h)
	*h = append(*h, c)
}

func (h *dueHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return c
}
