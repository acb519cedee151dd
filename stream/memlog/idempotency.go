package memlog

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"rejoin/stream"
)

// answers are the first answers to idempotency keys. All live equally long, so
// they end in the order they came. Guarded by Log.mu.
type answers struct {
	byKey map[answerKey]*answer
	queue []*answer // oldest first
}

type answerKey struct{ channel, key string }

type answer struct {
	key     answerKey
	sum     [sha256.Size]byte // of payload, event, key and end
	id      stream.ID
	expires time.Time
}

// answerOverhead is what an answer counts for, beside its two names.
const answerOverhead = 256

func answerBytes(m stream.Message) int64 {
	return int64(len(m.Channel) + len(m.IdempotencyKey) + answerOverhead)
}

// get finds the answer to the message's idempotency key, if it is remembered.
func (a *answers) get(m stream.Message, now time.Time) (*answer, bool) {
	r, ok := a.byKey[answerKey{m.Channel, m.IdempotencyKey}]
	return r, ok && now.Before(r.expires)
}

// add remembers an answer and returns the bytes it takes.
func (a *answers) add(m stream.Message, sum [sha256.Size]byte, id stream.ID, expires time.Time) int64 {
	r := &answer{answerKey{m.Channel, m.IdempotencyKey}, sum, id, expires}
	a.byKey[r.key] = r
	a.queue = append(a.queue, r)
	return answerBytes(m)
}

// expire forgets what is over and returns the bytes it took.
func (a *answers) expire(now time.Time) (bytes int64) {
	for len(a.queue) > 0 && !now.Before(a.queue[0].expires) {
		r := a.queue[0]
		a.queue[0] = nil
		a.queue = a.queue[1:]
		if a.byKey[r.key] == r { // with the clock set back, a later one may have ended first
			delete(a.byKey, r.key)
		}
		bytes += int64(len(r.key.channel) + len(r.key.key) + answerOverhead)
	}
	return bytes
}

// messageSum is the hash by which a repeat is told from another message.
func messageSum(m stream.Message) (sum [sha256.Size]byte) {
	if m.IdempotencyKey == "" {
		return sum
	}
	h := sha256.New()
	for _, s := range [...]string{m.Payload, m.Event, m.Key} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	h.Write([]byte{byte(m.End)})
	h.Sum(sum[:0])
	return sum
}
