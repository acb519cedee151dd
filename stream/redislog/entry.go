package redislog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rejoin/stream"
)

// raw is one entry of a stream as Redis gives it: its id and its fields and
// values in turn.
type raw struct {
	id     stream.ID
	fields []any
}

// parseRaws reads the reply of XRANGE and XREVRANGE.
func parseRaws(reply any) ([]raw, error) {
	list, ok := reply.([]any)
	if !ok && reply != nil {
		return nil, fmt.Errorf("a range of entries came as %T", reply)
	}
	raws := make([]raw, 0, len(list))
	for _, item := range list {
		pair, ok := item.([]any)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("an entry came as %T", item)
		}
		text, _ := pair[0].(string)
		id, err := stream.ParseID(text)
		if err != nil {
			return nil, fmt.Errorf("an entry came with id %q", text)
		}
		fields, _ := pair[1].([]any)
		raws = append(raws, raw{id: id, fields: fields})
	}
	return raws, nil
}

// entry reads an entry of ours; ok is false for one of a foreign writer, which
// lacks p or b.
func (r *raw) entry() (e stream.Entry, ok bool) {
	var hasPrev, hasLife bool
	for i := 0; i+1 < len(r.fields); i += 2 {
		name, _ := r.fields[i].(string)
		value, _ := r.fields[i+1].(string)
		switch name {
		case "p":
			e.Prev, hasPrev = parseUint(value)
		case "b":
			e.Life, hasLife = parseUint(value)
		case "payload":
			e.Payload = value
		case "event":
			e.Event = value
		case "key":
			e.Key = value
		case "end":
			if i := slices.Index(ends[:], value); i > 0 {
				e.End = stream.End(i)
			}
		}
	}
	e.ID = r.id
	return e, hasPrev && hasLife
}

// bytes is the size of what the entry carries.
func (r *raw) bytes() (n int) {
	for _, f := range r.fields {
		s, _ := f.(string)
		n += len(s)
	}
	return n
}

// mark reads an entry of a journal and the ms of the one before it; ok is false
// for a foreign one.
func (r *raw) mark() (m stream.Mark, prev uint64, ok bool) {
	var hasPrev, hasID bool
	for i := 0; i+1 < len(r.fields); i += 2 {
		name, _ := r.fields[i].(string)
		value, _ := r.fields[i+1].(string)
		switch name {
		case "c":
			m.Channel = value
		case "i":
			id, err := stream.ParseID(value)
			m.ID, hasID = id, err == nil
		case "s":
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				m.Bytes = n + stream.EntryOverhead
			}
			m.Deleted = value == "-1"
		case "p":
			prev, hasPrev = parseUint(value)
		}
	}
	return m, prev, hasPrev && hasID && m.Channel != ""
}

func parseUint(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// state is what a small key says, or what its stream says in its place.
type state struct {
	last  stream.ID
	life  uint64
	floor stream.ID
	size  int
	ended bool // last is the end
}

// parseSmall reads "<last id> <b> <floor> <size> <ended>".
func parseSmall(s string) (st state, ok bool) {
	var f [5]string
	for i := range f {
		var more bool
		if f[i], s, more = strings.Cut(s, " "); more != (i < len(f)-1) {
			return st, false
		}
	}
	var err1, err2, err3 error
	st.last, err1 = stream.ParseID(f[0])
	st.life, ok = parseUint(f[1])
	st.floor, err2 = stream.ParseID(f[2])
	st.size, err3 = strconv.Atoi(f[3])
	st.ended = f[4] == "1"
	return st, ok && err1 == nil && err2 == nil && err3 == nil
}
