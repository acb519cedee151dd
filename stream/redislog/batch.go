package redislog

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

const (
	// batchBytes ends a round of appends with the message that reaches it.
	batchBytes = 8 << 20
	// batchCount is the most messages of a round.
	batchCount = 1000
)

// AppendAll implements [stream.Log]. Each part of the log gets its messages in
// rounds, one pipeline each. A round has no two messages of a channel: so when
// its answers are lost, one message of a channel may be in the log and those
// behind it are not, and it does not matter in which order a round is done.
func (l *Log) AppendAll(ctx context.Context, ms []stream.Message) []stream.Result {
	b := &batch{log: l, messages: make([]stream.Message, len(ms)), results: make([]stream.Result, len(ms))}
	byPart := map[int][]int{}
	for i, m := range ms {
		b.messages[i] = alone(m)
		part := l.Part(m.Channel)
		byPart[part] = append(byPart[part], i)
	}
	var wg sync.WaitGroup
	for part, list := range byPart {
		wg.Go(func() { b.appendPart(ctx, part, list) })
	}
	wg.Wait()
	return b.results
}

// batch is one AppendAll. Each message's result is written by the goroutine of
// its part.
type batch struct {
	log      *Log
	messages []stream.Message
	results  []stream.Result
}

// appendPart appends the messages of one part, named by their index. A log that
// does not answer is waited for once.
func (b *batch) appendPart(ctx context.Context, part int, list []int) {
	away := false                // a round was not answered
	unknown := map[string]bool{} // channels with a message whose outcome is
	for _, round := range b.rounds(list) {
		round = slices.DeleteFunc(round, func(i int) bool {
			switch {
			case unknown[b.messages[i].Channel]:
				b.fail(i, stream.ErrNotAttempted)
			case away:
				b.fail(i, stream.ErrUnavailable)
			default:
				return false
			}
			return true
		})
		if len(round) == 0 {
			continue
		}
		away = b.round(ctx, part, round) != nil
		for _, i := range round {
			if errors.Is(b.results[i].Err, stream.ErrUnknownOutcome) {
				unknown[b.messages[i].Channel] = true
			}
		}
	}
}

func (b *batch) fail(i int, kind error) {
	b.results[i].Err = &stream.Error{Op: "append", Channel: b.messages[i].Channel, Kind: kind}
}

// rounds spreads the messages: the first of every channel, then the second …,
// bounded in number and bytes.
func (b *batch) rounds(list []int) (rounds [][]int) {
	turn := map[string]int{} // messages of the channel so far
	var turns [][]int
	for _, i := range list {
		n := turn[b.messages[i].Channel]
		turn[b.messages[i].Channel]++
		if n == len(turns) {
			turns = append(turns, nil)
		}
		turns[n] = append(turns[n], i)
	}
	for _, all := range turns {
		from, bytes := 0, 0
		for k, i := range all {
			bytes += len(b.messages[i].Payload)
			if bytes >= batchBytes || k+1-from == batchCount || k+1 == len(all) {
				rounds = append(rounds, all[from:k+1])
				from, bytes = k+1, 0
			}
		}
	}
	return rounds
}

// round is one pipeline and, where Redis did not have the script, one more. Its
// error says that Redis as a whole does not answer, or refuses for a while.
func (b *batch) round(ctx context.Context, part int, round []int) error {
	err := b.log.call(ctx, "append", "", part, true, func(ctx context.Context, c *redis.Client) error {
		lacking, err := b.send(ctx, c, round, false)
		if err == nil && len(lacking) > 0 {
			_, err = b.send(ctx, c, lacking, true)
		}
		return err
	})
	for _, i := range round {
		r := &b.results[i]
		if r.Err == nil && r.ID.IsZero() {
			r.Err = err // it did not even come to sending
		}
		if r.Err == nil {
			continue
		}
		r.Err = failure("append", b.messages[i].Channel, r.Err, true)
		if err == nil {
			b.log.opts.Meter.Error("append", errorKind(r.Err))
		}
	}
	return err
}

// send is one pipeline of appends; it keeps what each was answered. lacking are
// those for which Redis did not have the script; with whole, it is sent along.
// An error is the connection's, or one by which Redis refuses them all.
func (b *batch) send(ctx context.Context, c *redis.Client, list []int, whole bool) (lacking []int, err error) {
	l := b.log
	p := c.Pipeline()
	cmds := make([]*redis.Cmd, len(list))
	passed := make([]stream.ID, len(list))
	for k, i := range list {
		m := b.messages[i]
		passed[k] = l.known.get(m.Channel).last
		eval := l.appendScript.EvalSha
		if whole && k == 0 {
			eval = l.appendScript.Eval
		}
		cmds[k] = eval(ctx, p, l.appendKeys(m), l.appendArgs(m, passed[k])...)
	}
	_, err = p.Exec(ctx)
	refused := 0
	for k, i := range list {
		r := &b.results[i]
		r.Appended, r.Err = l.appended(b.messages[i], passed[k], cmds[k])
		switch {
		case r.Err == nil:
		case hasPrefix(r.Err, "NOSCRIPT"):
			lacking = append(lacking, i)
			r.Err = &stream.Error{Op: "append", Channel: b.messages[i].Channel, Kind: stream.ErrUnavailable, Err: r.Err}
		case isReply(r.Err) && hasPrefix(r.Err, passing...):
			refused++
		}
	}
	if err != nil && isReply(err) && refused < len(list) {
		err = nil // each has its own answer
	}
	return lacking, err
}
