package redislog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

const (
	// journalBlock is how long one XREAD waits for news. It need not be short:
	// closing the client interrupts it, and the audit watches the connection.
	journalBlock = 5 * time.Second
	// journalCount bounds the marks of one journal in one reply.
	journalCount = 1000
)

var errJournal = errors.New("the journal was lost or rolled back")

// journal is how far the journals of a part's partitions have been heard.
type journal struct {
	keys       keyspace
	partitions []int
	index      map[string]int // stream key to place

	mu     sync.Mutex // guards below; only the reader moves places
	places []place
	busy   bool // the reader waits for Wait to take its marks
}

// place is the position in one journal.
type place struct {
	read  stream.ID // XREAD goes on behind it
	heard stream.ID // the last entry of ours; differs where foreign ones stand
	bare  bool      // at the start no end was stored, and nothing was heard since
	aside bool      // the key is no stream: nothing can be appended, nor is it read
}

func newJournal(k keyspace, partitions []int) *journal {
	j := &journal{keys: k, partitions: partitions, index: map[string]int{}, places: make([]place, len(partitions))}
	for i, p := range partitions {
		j.index[k.journal(p)] = i
	}
	return j
}

func (j *journal) endKeys() (keys []string) {
	for _, p := range j.partitions {
		keys = append(keys, j.keys.journalEnd(p))
	}
	return keys
}

// parseEnds reads the reply of MGET; missing ones are zero.
func parseEnds(list []any) ([]stream.ID, error) {
	ends := make([]stream.ID, len(list))
	for i, v := range list {
		if v == nil {
			continue
		}
		text, _ := v.(string)
		id, err := stream.ParseID(text)
		if err != nil {
			return nil, fmt.Errorf("a journal's end is %q, not an id", text)
		}
		ends[i] = id
	}
	return ends, nil
}

// begin places the reader at the journals' ends. Where none is stored but the
// journal is there, its own last id serves.
func (j *journal) begin(ctx context.Context, c *redis.Client, list []any) error {
	ends, err := parseEnds(list)
	if err != nil {
		return err
	}
	p := c.Pipeline()
	infos := map[int]*redis.XInfoStreamCmd{}
	for i, end := range ends {
		j.places[i] = place{read: end, heard: end, bare: end.IsZero()}
		if end.IsZero() {
			infos[i] = p.XInfoStream(ctx, j.keys.journal(j.partitions[i]))
		}
	}
	if len(infos) == 0 {
		return nil
	}
	if _, err := p.Exec(ctx); err != nil && !isReply(err) {
		return err
	}
	for i, cmd := range infos {
		info, err := cmd.Result()
		if err != nil && hasPrefix(err, "ERR no such key", "WRONGTYPE") {
			continue
		}
		if err != nil {
			return err
		}
		id, err := stream.ParseID(info.LastGeneratedID)
		if err != nil {
			return err
		}
		j.places[i].read, j.places[i].heard = id, id
	}
	return nil
}

// snapshot is the places now, and whether the reader waits for Wait.
func (j *journal) snapshot() ([]place, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]place(nil), j.places...), j.busy
}

func (j *journal) setBusy(busy bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.busy = busy
}

// hear is the session's reader.
func (s *session) hear() {
	for {
		marks, err := s.journal.next(s.ctx, s.client.Client)
		if err != nil && hasPrefix(err, "WRONGTYPE") {
			if err = s.journal.setAside(s.ctx, s.client.Client); err == nil {
				continue
			}
		}
		if err != nil {
			s.end(failure("listen", "", err, false))
			return
		}
		s.answered()
		for _, m := range marks {
			s.log.known.heard(m.Channel, m.ID, m.Bytes)
		}
		if len(marks) == 0 {
			continue
		}
		s.journal.setBusy(true)
		select {
		case s.marks <- marks:
		case <-s.ctx.Done():
			return
		}
		s.journal.setBusy(false)
	}
}

// next waits for news and moves the places past it.
func (j *journal) next(ctx context.Context, c *redis.Client) ([]stream.Mark, error) {
	places, _ := j.snapshot()
	var names, ids []string
	for i, p := range j.partitions {
		if !places[i].aside {
			names = append(names, j.keys.journal(p))
			ids = append(ids, places[i].read.String())
		}
	}
	if len(names) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	streams, err := c.XRead(ctx, &redis.XReadArgs{
		Streams: append(names, ids...), Count: journalCount, Block: journalBlock,
	}).Result()
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var marks []stream.Mark
	for _, st := range streams {
		i, ok := j.index[st.Stream]
		if !ok {
			return nil, fmt.Errorf("XREAD answered for a stream that was not asked for")
		}
		for _, msg := range st.Messages {
			m, ok, err := places[i].pass(msg)
			if err != nil {
				return nil, err
			}
			if ok {
				marks = append(marks, m)
			}
		}
	}
	j.mu.Lock()
	j.places = places
	j.mu.Unlock()
	return marks, nil
}

// setAside leaves out the journals that are of another type: one such key must
// not silence all others. Nothing can be appended to its partition; once that is
// mended and something is, the audit sees the end move, and a new session reads
// all. An error if there is none.
func (j *journal) setAside(ctx context.Context, c *redis.Client) error {
	p := c.Pipeline()
	types := make([]*redis.StatusCmd, len(j.partitions))
	for i, n := range j.partitions {
		types[i] = p.Type(ctx, j.keys.journal(n))
	}
	if _, err := p.Exec(ctx); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	found := false
	for i, t := range types {
		if v := t.Val(); !j.places[i].aside && v != "stream" && v != "none" {
			j.places[i].aside, found = true, true
		}
	}
	if !found {
		return errors.New("a journal was of another type and is no more")
	}
	return nil
}

// pass moves the place past one entry. An entry that does not follow the one
// before breaks the chain: something in between was lost.
func (p *place) pass(msg redis.XMessage) (m stream.Mark, ok bool, err error) {
	id, err := stream.ParseID(msg.ID)
	if err != nil {
		return m, false, err
	}
	r := raw{id: id}
	for name, value := range msg.Values {
		r.fields = append(r.fields, name, value)
	}
	p.read = id
	m, prev, ok := r.mark()
	if !ok {
		return m, false, nil
	}
	if !p.follows(id, prev) {
		return m, false, fmt.Errorf("%w: %s with p=%d came behind %s", errJournal, id, prev, p.heard)
	}
	p.heard, p.bare = id, false
	return m, true, nil
}

// follows reports whether id comes directly behind the place. Behind a place
// that no stored end confirms anything may.
func (p *place) follows(id stream.ID, prev uint64) bool {
	if p.bare {
		return true
	}
	return id.N == p.heard.N+1 && prev == p.heard.MS
}
