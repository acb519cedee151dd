package delivery

import (
	"slices"

	"rejoin/stream"
)

// chain is one unbroken stretch of a channel's log, (base, end], as it is at
// one moment. It never changes: the part's worker publishes a new one. Entries
// are dense in n, so a position is found without a search.
type chain struct {
	known bool // the channel's end has been read; else the chain is nothing
	// era tells chains that grew out of each other from ones begun anew after
	// a break.
	era uint64
	// epoch is the session in which the end was last confirmed by a look.
	epoch  uint64
	base   stream.ID
	recs   []*Record
	waste  int       // records dropped that the array behind recs still holds
	looked uint64    // looks at the log's end so far
	floor  stream.ID // everything up to it was deleted
	bytes  int
	bottom bool  // nothing below base is retained
	ended  bool  // the channel has ended, at the chain's end
	err    error // the channel cannot be read; its readers are told and end
}

// end is the position of the newest entry known.
func (c *chain) end() stream.ID {
	if len(c.recs) == 0 {
		return c.base
	}
	return c.recs[len(c.recs)-1].ID
}

// find is the index in recs of the entry behind pos, if pos is in the chain.
// This is how a tail says yes; when it does not, only the log may say no.
func (c *chain) find(pos stream.ID) (int, bool) {
	if !c.known {
		return 0, false
	}
	if pos == c.base {
		return 0, true
	}
	if pos.N <= c.base.N || pos.N-c.base.N > uint64(len(c.recs)) {
		return 0, false
	}
	i := int(pos.N - c.base.N)
	return i, c.recs[i-1].ID == pos
}

// follows reports whether an entry may be appended.
func (c *chain) follows(e *stream.Entry) bool { return stream.Follows(c.end(), e) }

// append adds records that follow. Readers of the old chain keep their length
// of the shared array.
func (c *chain) append(recs ...*Record) {
	c.recs = append(c.recs, recs...)
	for _, r := range recs {
		c.bytes += r.Bytes()
		c.ended = r.End != stream.NotEnd
	}
}

// prepend adds a stretch read below the base: its last entry is the base
// itself.
func (c *chain) prepend(p *page) {
	recs := p.recs
	if len(recs) == 0 || recs[len(recs)-1].ID != c.base {
		c.bottom = true // the base is the last thing known of what was below
		return
	}
	low := len(recs) - 1
	for low > 0 && stream.Follows(recs[low-1].ID, &recs[low].Entry) {
		low--
	}
	base, ok := recs[low].Before()
	if !ok {
		base, low = recs[low].ID, low+1
	}
	c.bottom = !p.More || !ok || low > 0
	c.base = base
	c.recs, c.waste = slices.Concat(recs[low:], c.recs), 0
	for _, r := range recs[low:] {
		c.bytes += r.Bytes()
	}
}

// drop removes the oldest k records.
func (c *chain) drop(k int) {
	if k <= 0 {
		return
	}
	for _, r := range c.recs[:k] {
		c.bytes -= r.Bytes()
	}
	c.base = c.recs[k-1].ID
	c.recs = c.recs[k:]
	// Older chains still read the array, so it is not cleared but left behind.
	if c.waste += k; c.waste >= len(c.recs) {
		c.recs, c.waste = slices.Clone(c.recs), 0
	}
}

// dropThrough removes every record up to and including id.
func (c *chain) dropThrough(id stream.ID) {
	k := 0
	for k < len(c.recs) && !id.Less(c.recs[k].ID) {
		k++
	}
	if k > 0 {
		c.drop(k)
		c.bottom = true
	}
}

// trim keeps what is served, by count and age, and what fits into maxBytes.
func (c *chain) trim(keep int, oldest stream.ID, maxBytes int) {
	c.drop(len(c.recs) - keep)
	k := 0
	for k < len(c.recs) && c.recs[k].ID.Less(oldest) {
		k++
	}
	c.drop(k)
	k, bytes := 0, c.bytes
	for k < len(c.recs) && bytes > maxBytes {
		bytes -= c.recs[k].Bytes()
		k++
	}
	if k > 0 {
		c.drop(k)
		c.bottom = false
	}
}
