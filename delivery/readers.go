package delivery

import (
	"slices"
	"time"
)

// Subscriptions is how many are open now.
func (b *Broker) Subscriptions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.subs)
}

// Readers is how many subscriptions read the channel here, and since when there
// has been one all the while.
func (b *Broker) Readers(channel string) (n int, since time.Time) {
	p := b.parts[b.log.Part(channel)]
	p.mu.Lock()
	t := p.tails[channel]
	p.mu.Unlock()
	if t == nil {
		return 0, time.Time{}
	}
	return t.readers()
}

// ChannelsRead are the names of the channels that have readers here, sorted. It
// costs a pass over the tails.
func (b *Broker) ChannelsRead() (names []string) {
	for _, p := range b.parts {
		for _, t := range p.allTails() {
			if n, _ := t.readers(); n > 0 {
				names = append(names, t.channel)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (t *tail) readers() (n int, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.members) == 0 {
		return 0, time.Time{}
	}
	return len(t.members), t.busy
}
