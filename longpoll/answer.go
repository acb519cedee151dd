package longpoll

import (
	"encoding/json"
	"iter"
	"strconv"
	"time"

	"rejoin/delivery"
	"rejoin/stream"
)

const (
	// answerBytes is the most an answer holds, in UTF-8, unless its one message
	// is larger.
	answerBytes = 1 << 20
	// What of that is kept for what is not a message: names, gap, end and
	// position of each channel, and the rest.
	channelBytes  = 640
	envelopeBytes = 1 << 10
)

// poll is one request and what has been gathered for it. Until there is
// something to say it holds nothing but its channels.
type poll struct {
	params
	channels []channel
	hold     bool      // it has a cursor for each channel, and waits for news
	end      time.Time // when its time is up; zero until it runs

	messages []*delivery.Record // oldest first
	bytes    int                // of their JSON
	gaps     []*stream.Gap

	news bool // something that the client's cursor does not cover
	full bool // no further message fits
	more bool // there is more to take at once
	over bool // the subscription has ended
	late bool // the time was up
	err  error

	standing delivery.Standing
}

// channel is where the answer is in one channel.
type channel struct {
	name  string
	pos   stream.ID // after what has been gathered
	known bool      // pos means something
	ended bool
	gap   *stream.Gap // to be told with the message behind it, or not at all
}

func newPoll(params params, channels []delivery.Channel) *poll {
	p := &poll{params: params, channels: make([]channel, len(channels)), hold: true}
	for i, c := range channels {
		pos, ok := c.Start.Cursor()
		p.channels[i] = channel{name: c.Name, pos: pos, known: ok}
		p.hold = p.hold && ok
	}
	return p
}

// next gathers what the subscription has.
func (p *poll) next(sub *delivery.Subscription) {
	batch, standing := sub.Oldest(min(p.limit-len(p.messages), chunk))
	p.more, p.over = batch.More, batch.Done
	if !batch.Done {
		p.standing = standing
	}
	for i := range batch.Items {
		if p.take(&batch.Items[i]); p.full {
			return
		}
	}
	p.full = len(p.messages) == p.limit
}

// take gathers one item, or finds that it has no room. What is not taken is not
// covered by the cursor.
func (p *poll) take(it *delivery.Item) {
	if it.Kind == delivery.Error {
		p.err = it.Err
		return
	}
	c := p.channel(it.Channel)
	switch it.Kind {
	case delivery.Ready:
		c.pos, c.known = it.Ready[0].Cursor, true
	case delivery.Gap:
		if c.gap = it.Gap; it.Gap.Next.IsZero() {
			p.move(c, it.Pos)
		}
	case delivery.Message:
		size := len(it.Record.Frame(delivery.FormJSON, encode)) + 1
		room := answerBytes - envelopeBytes - channelBytes*len(p.channels)
		if p.full = len(p.messages) > 0 && p.bytes+size > room; p.full {
			return
		}
		p.bytes += size
		p.messages = append(p.messages, it.Record)
		p.move(c, it.Pos)
	case delivery.End:
		if c.ended = true; c.pos != it.Pos { // else the client knows
			p.move(c, it.Pos)
		}
	}
}

// move puts a channel's position behind something that is told.
func (p *poll) move(c *channel, pos stream.ID) {
	c.pos, p.news = pos, true
	if c.gap != nil {
		p.gaps = append(p.gaps, c.gap)
		c.gap = nil
	}
}

func (p *poll) channel(name string) *channel {
	i := 0
	for p.channels[i].name != name {
		i++
	}
	return &p.channels[i]
}

// positioned reports whether there is a position for every channel: found, or
// as the client's cursor said.
func (p *poll) positioned() bool {
	for i := range p.channels {
		if !p.channels[i].known {
			return false
		}
	}
	return true
}

func (p *poll) allEnded() bool {
	for i := range p.channels {
		if !p.channels[i].ended {
			return false
		}
	}
	return true
}

// cursor covers what is in the answer and nothing else.
func (p *poll) cursor() string {
	names := make([]string, len(p.channels))
	for i := range p.channels {
		names[i] = p.channels[i].name
	}
	at := stream.NewPositions(names)
	for i := range p.channels {
		at.Set(p.channels[i].name, p.channels[i].pos)
	}
	return at.String()
}

// state is stale when the log does not answer: it was said to, or it has not
// said in all this time whether there is more.
func (p *poll) state() delivery.StateName {
	if p.standing == delivery.Away || p.late && !p.news && p.standing == delivery.Behind {
		return delivery.Stale
	}
	return delivery.Live
}

// parts is the answer's JSON, in pieces: the messages' encodings are shared with
// all who are given them and are not copied.
func (p *poll) parts(cursor string, retry time.Duration) iter.Seq[[]byte] {
	tail := append(make([]byte, 0, 256), `],"gaps":[`...)
	for i, g := range p.gaps {
		if i > 0 {
			tail = append(tail, ',')
		}
		b, err := json.Marshal(g)
		if err != nil {
			panic(err) // a struct of plain fields: cannot happen
		}
		tail = append(tail, b...)
	}
	tail = append(tail, `],"ended":[`...)
	first := true
	for i := range p.channels {
		if c := &p.channels[i]; c.ended {
			if !first {
				tail = append(tail, ',')
			}
			first = false
			tail = stream.AppendJSONString(tail, c.name)
		}
	}
	tail = append(tail, `],"cursor":"`...)
	tail = append(tail, cursor...)
	tail = append(tail, `","state":"`...)
	tail = append(tail, p.state()...)
	tail = append(tail, `","retry":`...)
	tail = strconv.AppendInt(tail, retry.Milliseconds(), 10)
	tail = append(tail, '}')
	return func(yield func([]byte) bool) {
		before := []byte(`{"messages":[`)
		for _, r := range p.messages {
			if !yield(before) || !yield(r.Frame(delivery.FormJSON, encode)) {
				return
			}
			before = comma
		}
		if len(p.messages) == 0 && !yield(before) {
			return
		}
		yield(tail)
	}
}

var comma = []byte{','}

// encode is the encoding of [delivery.FormJSON]: the message object.
func encode(r *delivery.Record) []byte {
	const names = 96 // about what the object has beside the texts
	size := names + len(r.Channel) + len(r.Event) + len(r.Key) + len(r.Payload) + len(r.Payload)/8
	return r.AppendJSON(make([]byte, 0, size), r.Channel)
}
