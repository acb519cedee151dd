package redislog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

const (
	// listenTimeout bounds Listen, beside its context.
	listenTimeout = 1200 * time.Millisecond
	// sessionReads is how many Reads of a session run at a time; more wait.
	sessionReads = 8
	// sessionPool leaves room for the journal's reader, the audit and, twice
	// over, the reads: nobody ever waits for a connection of another.
	sessionPool = 2 * (sessionReads + 2)
)

// session is one unbroken hearing of a part, on a client of its own: closing
// that is what ends every call of the session.
//
// Three goroutines: the journal's reader hands marks to Wait, the audit watches
// the connection and the journals, one more asks the Sentinels if there are any.
type session struct {
	log     *Log
	part    int
	client  *client
	journal *journal
	marks   chan []stream.Mark // unbuffered, from the reader to Wait
	reads   chan struct{}      // sessionReads slots
	ctx     context.Context    // ends with the session
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	heard   atomic.Int64 // Unix nanoseconds of the last answer

	mu  sync.Mutex // guards err
	err error      // why it is over; nil while it lives
}

// Listen implements [stream.Log]. It takes at most 1.2 seconds.
func (l *Log) Listen(ctx context.Context, part int) (stream.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, min(listenTimeout, l.opts.Timeout))
	defer cancel()
	s, err := l.listen(ctx, part)
	if err != nil {
		err = failure("listen", "", err, false)
		if l.over() {
			err = &stream.Error{Op: "listen", Kind: stream.ErrClosed}
		}
		l.opts.Meter.Error("listen", errorKind(err))
		return nil, err
	}
	return s, nil
}

func (l *Log) listen(ctx context.Context, part int) (*session, error) {
	if part < 0 || part >= l.Parts() {
		return nil, &stream.Error{Op: "listen", Kind: stream.ErrBroken, Err: fmt.Errorf("part %d of %d", part, l.Parts())}
	}
	if l.over() {
		return nil, redis.ErrClosed
	}
	if err := l.agree(ctx); err != nil {
		return nil, err
	}
	addr, err := l.topology.master(ctx, part)
	if err != nil {
		return nil, err
	}
	s := &session{
		log:     l,
		part:    part,
		client:  l.target.connect(addr, sessionPool, 2*journalBlock),
		journal: newJournal(l.keys, l.partitions(part)),
		marks:   make(chan []stream.Mark),
		reads:   make(chan struct{}, sessionReads),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.start(ctx); err != nil {
		s.cancel()
		s.client.close()
		l.topology.doubt(part, err)
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		s.cancel()
		s.client.close()
		return nil, redis.ErrClosed
	}
	l.sessions[s] = struct{}{}
	s.wg.Go(s.hear)
	s.wg.Go(s.watch)
	s.wg.Go(func() {
		if err := l.topology.watch(s.ctx, addr); err != nil {
			s.end(&stream.Error{Op: "listen", Kind: stream.ErrUnavailable, Err: err})
		}
	})
	return s, nil
}

// start proves the connection, reads where the journals end, and puts the number
// of partitions back if Redis lost everything since it was stored.
func (s *session) start(ctx context.Context) error {
	l := s.log
	p := s.client.Pipeline()
	sent, clock := time.Now(), p.Time(ctx)
	role := p.Do(ctx, "ROLE")
	ends := p.MGet(ctx, s.journal.endKeys()...)
	var stored *redis.StringCmd
	if s.part == 0 {
		p.SetNX(ctx, l.keys.count(), l.opts.Partitions, 0)
		stored = p.Get(ctx, l.keys.count())
	}
	if _, err := p.Exec(ctx); err != nil && !isReply(err) {
		return err
	}
	if err := checkRole(role); err != nil {
		return err
	}
	list, err := ends.Result()
	if err != nil {
		return err
	}
	if stored != nil && stored.Err() == nil && stored.Val() != "" {
		l.compare(stored.Val())
		if err := l.agreed.Load().err; err != nil {
			return err
		}
	}
	if t, err := clock.Result(); err == nil {
		l.heardClock(sent, t)
	}
	s.answered()
	return s.journal.begin(ctx, s.client.Client, list)
}

// checkRole refuses a server that says it is a replica: what is read there may
// be old. One that does not say (ACL) is taken for a master.
func checkRole(role *redis.Cmd) error {
	list, err := role.Slice()
	if err != nil || len(list) == 0 {
		if err != nil && kind(err, false) != stream.ErrBroken {
			return err
		}
		return nil
	}
	if name, _ := list[0].(string); name != "master" {
		return &stream.Error{Op: "listen", Kind: stream.ErrUnavailable, Err: fmt.Errorf("this Redis is a %s, not the master", name)}
	}
	return nil
}

// end makes the session over, once, for this reason.
func (s *session) end(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	s.mu.Unlock()
	s.cancel()
	s.client.close()
	s.log.topology.doubt(s.part, err)
	s.log.mu.Lock()
	delete(s.log.sessions, s)
	s.log.mu.Unlock()
	if k := errorKind(err); k != stream.ErrClosed {
		s.log.opts.Meter.Error("session", k)
	}
}

// why is the reason the session is over, nil while it lives.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *session) answered() { s.heard.Store(time.Now().UnixNano()) }

// Heard implements [stream.Session].
func (s *session) Heard() time.Time { return time.Unix(0, s.heard.Load()) }

// Wait implements [stream.Session].
func (s *session) Wait(ctx context.Context) ([]stream.Mark, error) {
	if err := s.why(); err != nil {
		return nil, err
	}
	select {
	case m := <-s.marks:
		return m, nil
	case <-s.ctx.Done():
		return nil, s.why()
	case <-ctx.Done():
		return nil, &stream.Error{Op: "wait", Kind: stream.ErrUnavailable, Err: context.Cause(ctx)}
	}
}

// Read implements [stream.Session]. As long as Redis answers each pipeline within
// Options.Timeout it may go on for longer. A context that ends while it runs
// leaves the session as it is.
func (s *session) Read(ctx context.Context, queries []stream.Query) ([]stream.Page, error) {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-s.ctx.Done():
	case <-ctx.Done():
		return nil, failure("look", "", context.Cause(ctx), false)
	}
	if err := s.why(); err != nil {
		return nil, err
	}
	start := time.Now()
	pages, err := s.log.read(ctx, s.client.Client, queries)
	if err == nil {
		s.answered()
		s.log.opts.Meter.RoundTrip("look", time.Since(start))
		return pages, nil
	}
	err = failure("look", "", err, false)
	if over := s.why(); over != nil {
		return nil, over
	}
	if ctx.Err() == nil {
		s.end(err)
	}
	return nil, err
}

// Close implements [stream.Session].
func (s *session) Close() {
	s.end(&stream.Error{Op: "session", Kind: stream.ErrClosed})
	s.wg.Wait()
}
