package redislog

import (
	"sync"

	"rejoin/stream"
)

// maxKnown bounds how many channels are remembered; about 10 MB.
const maxKnown = 64 << 10

// known remembers of channels the newest id and the size to expect of an entry.
// It forgets those not touched for longest, by halves.
type known struct {
	mu         sync.Mutex // guards both maps
	young, old map[string]fact
}

type fact struct {
	last stream.ID
	size int // a maximum that decays; 0: not known
}

func newKnown() *known { return &known{young: map[string]fact{}} }

// get is what is known of a channel.
func (k *known) get(channel string) fact {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.find(channel)
}

// find looks in both halves. Called with mu held.
func (k *known) find(channel string) fact {
	if f, ok := k.young[channel]; ok {
		return f
	}
	return k.old[channel]
}

// update changes what is known. Called with mu held.
func (k *known) update(channel string, f fact) {
	if _, ok := k.young[channel]; !ok && len(k.young) >= maxKnown/2 {
		k.young, k.old = map[string]fact{}, k.young
	}
	k.young[channel] = f
}

// answered: an append that told the script passed was answered id. It replaces
// what was told; what was learned since only rises.
func (k *known) answered(channel string, passed, id stream.ID, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.find(channel)
	if f.last == passed || f.last.Less(id) {
		f.last = id
	}
	f.size = expect(f.size, bytes)
	k.update(channel, f)
}

// heard: the journal or a read spoke of id, and of an entry's size unless 0.
func (k *known) heard(channel string, id stream.ID, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.find(channel)
	if f.last.Less(id) {
		f.last = id
	}
	if bytes > 0 {
		f.size = expect(f.size, bytes)
	}
	k.update(channel, f)
}

// forget drops a channel.
func (k *known) forget(channel string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.young, channel)
	delete(k.old, channel)
}

// expect is a maximum that decays by a sixteenth with each entry.
func expect(size, bytes int) int { return max(bytes, size-size/16) }
