package redislog

import (
	"context"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

const (
	// maxReply bounds a reply, as well as the sizes of entries are known.
	maxReply = 8 << 20
	// maxCount bounds how many entries one reply may hold.
	maxCount = 1000
	// unknownSize is taken for an entry where nothing is known.
	unknownSize = maxReply / 8
)

// scan reads a range of one stream in as many bounded replies as it takes. It
// hands every raw entry to take, until take has enough or the range ends.
type scan struct {
	key  string
	down bool // XREVRANGE
	// from is where the next reply begins, to where the range ends.
	from, to string
	want     int // entries that take may still need, at least 1
	size     int // of an entry, as expected
	take     func(raw) (enough bool)
	done     bool
	end      bool // the range was read to its end

	count int
	cmd   *redis.Cmd
}

// upFrom and downFrom begin a scan at an id or, exclusively, just beyond it.
func upFrom(id stream.ID, exclusive bool) string   { return bound(id, exclusive && id != stream.MaxID) }
func downFrom(id stream.ID, exclusive bool) string { return bound(id, exclusive && !id.IsZero()) }

func bound(id stream.ID, exclusive bool) string {
	if exclusive {
		return "(" + id.String()
	}
	return id.String()
}

// ask adds the next command to the pipeline.
func (s *scan) ask(ctx context.Context, p redis.Pipeliner) {
	size := s.size
	if size <= 0 {
		size = unknownSize
	}
	s.count = max(1, min(s.want, maxCount, maxReply/(size+stream.EntryOverhead)))
	name := "XRANGE"
	if s.down {
		name = "XREVRANGE"
	}
	s.cmd = p.Do(ctx, name, s.key, s.from, s.to, "COUNT", s.count)
}

// answer takes what ask asked for.
func (s *scan) answer() error {
	reply, err := s.cmd.Result()
	if err != nil {
		return err
	}
	raws, err := parseRaws(reply)
	if err != nil {
		return err
	}
	largest := 0
	for i := range raws {
		largest = max(largest, raws[i].bytes())
		if s.take(raws[i]) {
			s.passed(raws[i].id)
			s.done = true
			return nil
		}
	}
	if len(raws) < s.count {
		s.done, s.end = true, true
		return nil
	}
	s.size = max(largest, s.size/2)
	s.passed(raws[len(raws)-1].id)
	s.done = s.end
	// Whoever found too little in a whole reply looks at more with the next.
	s.want = max(s.want, min(2*s.count, maxCount))
	return nil
}

// passed: the next reply begins beyond id.
func (s *scan) passed(id stream.ID) {
	if s.down {
		s.from, s.end = downFrom(id, true), id.IsZero()
	} else {
		s.from, s.end = upFrom(id, true), id == stream.MaxID
	}
}
