package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"rejoin/delivery"
	"rejoin/stream"
)

// Bounds of one page of history.
const (
	defaultLimit = 100
	maxLimit     = 1000
	pageBytes    = 1 << 20
	pageEnvelope = 1 << 10 // room for all of a page but its messages
)

// history answers a page of a channel's messages: upward from a lower bound, or
// downward from an upper one.
func (a *API) history(w http.ResponseWriter, r *http.Request) error {
	q, err := a.historyParams(r)
	if err != nil {
		return err
	}
	read := a.readUp
	if q.down {
		read = a.readDown
	}
	p, err := read(r, q)
	if err != nil {
		return err
	}
	if p.gap != nil {
		a.metrics.GapTold(p.gap.Reason)
	}
	p.write(w, q)
	return nil
}

// historyQuery is what a request asks for.
type historyQuery struct {
	channel string
	limit   int
	after   stream.ID // the lower bound
	judged  bool      // after is a client's cursor
	before  stream.ID // the upper bound
	down    bool      // the newest of what lies between
	newest  bool      // newest first
}

func (a *API) historyParams(r *http.Request) (q historyQuery, err error) {
	q.before = stream.MaxID
	if q.channel, err = channelOf(r); err != nil {
		return q, err
	}
	params := delivery.ParseParams(r.URL.RawQuery)
	if err = params.Check("limit", "order", "before", "since", "after"); err != nil {
		return q, err
	}
	if q.limit, err = limitOf(params); err != nil {
		return q, err
	}
	switch text, ok := params.Get("order"); {
	case ok && text == "desc":
		q.down, q.newest = true, true
	case ok && text != "asc":
		return q, badRequest("order: want asc or desc")
	}
	if text, ok := params.Get("before"); ok {
		if q.before, err = stream.ParseID(text); err != nil || q.before.IsZero() {
			return q, badRequest("before: want the id of a message, <ms>-<n>")
		}
		q.down = true
	}
	if text, ok := params.Get("since"); ok {
		t, err := delivery.ParseSince(text, a.o.Log.Now())
		if err != nil {
			return q, badRequest("since: %v", err)
		}
		q.after = stream.AtTime(t)
	}
	if text, _ := params.Get("after"); text != "" {
		c, err := stream.ParseCursor(text)
		if err != nil {
			return q, badRequest("after: %v", err)
		}
		if pos, ok := c.Position(q.channel); ok {
			q.after, q.judged = pos, true
		}
	}
	return q, nil
}

// historyPage is a page before it is written.
type historyPage struct {
	stream.Page
	from stream.ID   // the cursor, if there is no entry
	gap  *stream.Gap // behind the client's cursor
}

// readUp is the page above q.after, or what the rule of resume makes of that.
func (a *API) readUp(r *http.Request, q historyQuery) (historyPage, error) {
	read := stream.Query{Channel: q.channel, After: q.after, Limit: q.limit, MaxBytes: pageBytes}
	page, err := a.o.Log.Read(r.Context(), read)
	if err != nil {
		return historyPage{}, err
	}
	from, gap := q.after, (*stream.Gap)(nil)
	if q.judged {
		verdict := stream.Resume(q.after, page)
		from, gap = verdict.From, verdict.Gap
		if gap != nil && from == stream.Earliest {
			// The page is what is behind a cursor of another log: read from
			// the oldest instead.
			read.After = stream.Earliest
			if page, err = a.o.Log.Read(r.Context(), read); err != nil {
				return historyPage{}, err
			}
			gap.Next = stream.Earliest
			if len(page.Entries) > 0 {
				gap.Next = page.Entries[0].ID
			}
		}
	}
	if len(page.Entries) == 0 && (!q.judged || from == stream.Earliest) {
		from = endOf(page) // nothing is there now
	}
	return historyPage{page, from, gap}, nil
}

// readDown is the page below q.before, down to q.after.
func (a *API) readDown(r *http.Request, q historyQuery) (historyPage, error) {
	from, gap := q.after, (*stream.Gap)(nil)
	if q.judged {
		first, err := a.o.Log.Read(r.Context(), stream.Query{Channel: q.channel, After: q.after, Limit: 1})
		if err != nil {
			return historyPage{}, err
		}
		verdict := stream.Resume(q.after, first)
		from, gap = verdict.From, verdict.Gap
	}
	// One more than asked for, since the newest entry may be an end and no message.
	read := stream.Query{Channel: q.channel, Before: q.before, Limit: q.limit + 1, MaxBytes: pageBytes}
	page, err := a.o.Log.Read(r.Context(), read)
	if err != nil {
		return historyPage{}, err
	}
	if n := len(page.Entries); n > q.limit && page.Entries[n-1].End != stream.EndAlone {
		page.Entries, page.More = page.Entries[1:], true
	}
	i := slices.IndexFunc(page.Entries, func(e stream.Entry) bool { return from.Less(e.ID) })
	switch {
	case i > 0:
		page.Entries, page.More = page.Entries[i:], false
	case i == 0:
		if pos, ok := page.Entries[0].Before(); ok && !from.Less(pos) {
			page.More = false // what is below it is below the bound
		}
	default:
		page.Entries, page.More = nil, false
		if page.Last.Less(q.before) && (!q.judged || from == stream.Earliest) {
			from = endOf(page)
		} else if !q.judged {
			from = stream.Earliest
		}
	}
	return historyPage{page, from, gap}, nil
}

// endOf is the channel's end, a position that can be proven.
func endOf(p stream.Page) stream.ID {
	if p.Last.IsZero() {
		return stream.BeforeFirst
	}
	return p.Last
}

// write writes the page: at most pageBytes, one message at least; what is left
// out is at the end it is read towards. The cursor is behind the page's newest
// entry in either order: reading goes on from there.
func (p *historyPage) write(w http.ResponseWriter, q historyQuery) {
	if q.down {
		slices.Reverse(p.Entries)
	}
	var messages [][]byte
	cursor, more, bytes := p.from, p.More, 0
	for i := range p.Entries {
		e := &p.Entries[i]
		if e.End != stream.EndAlone { // which is an entry, but no message
			text := e.AppendJSON(nil, p.Channel)
			if bytes += len(text) + 1; len(messages) > 0 && bytes > pageBytes-pageEnvelope {
				more = true
				break
			}
			messages = append(messages, text)
		}
		if i == 0 || !q.down {
			cursor = e.ID
		}
	}
	if q.down && !q.newest {
		slices.Reverse(messages)
	}

	b := append(make([]byte, 0, bytes+pageEnvelope), `{"messages":[`...)
	for i, text := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, text...)
	}
	b = append(b, `],"cursor":"`...)
	b = cursor.Append(b)
	b = append(b, `","gap":`...)
	told, err := json.Marshal(p.gap)
	if err != nil {
		panic(err) // a struct of plain fields: cannot happen
	}
	b = append(b, told...)
	b = append(b, `,"more":`...)
	b = strconv.AppendBool(b, more)
	b = append(b, "}\n"...)

	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	_, _ = w.Write(b)
}
