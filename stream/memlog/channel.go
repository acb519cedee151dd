package memlog

import (
	"container/heap"
	"slices"
	"time"

	"rejoin/stream"
)

// channel is one channel's log. Its entries are all of one life, dense in N:
// they only ever leave from the front. Guarded by Log.mu.
type channel struct {
	name      string
	retention stream.Retention
	entries   []*node // oldest first
	last      stream.ID
	ended     bool // last is the end
	life      uint64
	floor     stream.ID // deleted up to here
	touched   time.Time // last append or delete
	due       time.Time // when something of it may go; see schedule
	place     int       // in Log.due
}

// channelOverhead is what a channel without messages counts for, beside its name.
const channelOverhead = 384

// lookup finds a channel as it is now: trimmed, and nil once it is forgotten.
func (l *Log) lookup(name string, now time.Time) *channel {
	c := l.channels[name]
	if c == nil {
		return nil
	}
	l.trim(c, now)
	if len(c.entries) > 0 || now.Before(c.forgetAt()) {
		return c
	}
	delete(l.channels, name)
	heap.Remove(&l.due, c.place)
	l.fixed -= int64(len(name) + channelOverhead)
	l.floor = max(l.floor, c.last.MS)
	return nil
}

// begin makes a channel that has no entry yet.
func (l *Log) begin(name string) *channel {
	c := &channel{name: name, retention: l.opts.Retention(name)}
	d := stream.DefaultRetention
	if c.retention.MaxMessages <= 0 {
		c.retention.MaxMessages = d.MaxMessages
	}
	if c.retention.MaxAge <= 0 {
		c.retention.MaxAge = d.MaxAge
	}
	if c.retention.ChannelTTL <= 0 {
		c.retention.ChannelTTL = d.ChannelTTL
	}
	l.channels[name] = c
	l.fixed += int64(len(name) + channelOverhead)
	heap.Push(&l.due, c)
	return c
}

// next gives the next id and the MS before it. A life begins above floor, so
// that no cursor of a channel once forgotten is taken for one of this life.
func (c *channel) next(now time.Time, floor uint64) (id stream.ID, prev uint64) {
	ms := stream.AtTime(now).MS
	if c.last.IsZero() {
		ms = max(ms, floor+1)
		c.life = ms
	}
	prev = c.last.MS
	c.last = stream.ID{MS: max(ms, prev), N: c.last.N + 1}
	return c.last, prev
}

// trim drops what retention no longer serves.
func (l *Log) trim(c *channel, now time.Time) {
	for len(c.entries) > 0 && (len(c.entries) > c.retention.MaxMessages || !now.Before(c.agedAt())) {
		l.pop(c)
	}
}

// agedAt is when the oldest entry goes by age. There must be one.
func (c *channel) agedAt() time.Time {
	return c.entries[0].entry.ID.Time().Add(c.retention.MaxAge)
}

// forgetAt is when a channel without entries is forgotten, its counter too.
func (c *channel) forgetAt() time.Time { return c.touched.Add(c.retention.ChannelTTL) }

// page answers a query of a channel that is trimmed.
func (c *channel) page(q stream.Query) stream.Page {
	p := stream.Page{Channel: q.Channel, Last: c.last, Life: c.life, Ended: c.ended, Floor: c.floor, Placed: true}
	if !q.Before.IsZero() {
		end := c.above(q.Before, false)
		from, bytes := end, 0
		for from > 0 && (from == end || end-from < q.Limit && !(q.MaxBytes > 0 && bytes >= q.MaxBytes)) {
			from--
			bytes += c.entries[from].entry.Bytes()
		}
		p.Entries = c.copy(from, end)
		p.More = from > 0
		return p
	}
	from := c.above(q.After, true)
	if from > 0 && c.entries[from-1].entry.ID != q.After {
		p.Placed, p.Oldest = false, c.entries[0].entry.ID
	}
	to, bytes := from, 0
	for to < len(c.entries) && (to == from || to-from < q.Limit && !(q.MaxBytes > 0 && bytes >= q.MaxBytes)) {
		bytes += c.entries[to].entry.Bytes()
		to++
	}
	p.Entries = c.copy(from, to)
	p.More = to < len(c.entries)
	return p
}

// above is the index of the first entry above id, or at it unless strictly.
func (c *channel) above(id stream.ID, strictly bool) int {
	i, found := slices.BinarySearchFunc(c.entries, id, func(n *node, id stream.ID) int { return n.entry.ID.Compare(id) })
	if found && strictly {
		i++
	}
	return i
}

func (c *channel) copy(from, to int) []stream.Entry {
	if from == to {
		return nil
	}
	list := make([]stream.Entry, 0, to-from)
	for _, n := range c.entries[from:to] {
		list = append(list, n.entry)
	}
	return list
}
