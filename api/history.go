package api

import (
	"encoding/json"
	"net/http"
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

// history answers a page of a channel's messages, oldest first.
func (a *API) history(w http.ResponseWriter, r *http.Request) error {
	q, err := a.historyParams(r)
	if err != nil {
		return err
	}
	page, err := a.o.Log.Read(r.Context(), q.read)
	if err != nil {
		return err
	}
	from, gap := q.read.After, (*stream.Gap)(nil)
	if q.judged {
		verdict := stream.Resume(q.read.After, page)
		from, gap = verdict.From, verdict.Gap
		if gap != nil && from == stream.Earliest {
			// The page is what is behind a cursor of another log: read from
			// the oldest instead.
			q.read.After = stream.Earliest
			if page, err = a.o.Log.Read(r.Context(), q.read); err != nil {
				return err
			}
			gap.Next = stream.Earliest
			if len(page.Entries) > 0 {
				gap.Next = page.Entries[0].ID
			}
		}
	}
	if len(page.Entries) == 0 && (!q.judged || from == stream.Earliest) {
		// Nothing is there now: the end is a position that can be proven.
		from = page.Last
		if from.IsZero() {
			from = stream.BeforeFirst
		}
	}
	if gap != nil {
		a.metrics.GapTold(gap.Reason)
	}
	writePage(w, page, from, gap)
	return nil
}

// historyQuery is what a request asks of the log.
type historyQuery struct {
	read   stream.Query
	judged bool // After is a client's cursor
}

func (a *API) historyParams(r *http.Request) (historyQuery, error) {
	channel, err := channelOf(r)
	if err != nil {
		return historyQuery{}, err
	}
	params, err := delivery.ParseParams(r.URL.RawQuery)
	if err != nil {
		return historyQuery{}, err
	}
	for _, name := range []string{"before", "order"} {
		if _, ok := params.Get(name); ok {
			return historyQuery{}, delivery.NotBuilt(name)
		}
	}
	q := historyQuery{read: stream.Query{Channel: channel, Limit: defaultLimit, MaxBytes: pageBytes}}
	if text, ok := params.Get("limit"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			return historyQuery{}, badRequest("limit: want a number from 1 to %d", maxLimit)
		}
		q.read.Limit = n
	}
	if text, ok := params.Get("since"); ok {
		t, err := delivery.ParseSince(text, a.o.Log.Now())
		if err != nil {
			return historyQuery{}, badRequest("since: %v", err)
		}
		q.read.After = stream.AtTime(t)
	}
	if text, _ := params.Get("after"); text != "" {
		c, err := stream.ParseCursor(text)
		if err != nil {
			return historyQuery{}, badRequest("after: %v", err)
		}
		if pos, ok := c.Position(channel); ok {
			q.read.After, q.judged = pos, true
		}
	}
	return q, nil
}

// writePage writes the page: at most pageBytes, one message at least. from is
// the cursor if it holds no message.
func writePage(w http.ResponseWriter, page stream.Page, from stream.ID, gap *stream.Gap) {
	b := append(make([]byte, 0, 4<<10), `{"messages":[`...)
	cursor, more, messages := from, page.More, 0
	for i := range page.Entries {
		e := &page.Entries[i]
		if e.End == stream.EndAlone {
			cursor = e.ID // an entry, but no message
			continue
		}
		kept := len(b)
		if messages > 0 {
			b = append(b, ',')
		}
		if b = e.AppendJSON(b, page.Channel); messages > 0 && len(b) > pageBytes-pageEnvelope {
			b, more = b[:kept], true
			break
		}
		cursor = e.ID
		messages++
	}
	b = append(b, `],"cursor":"`...)
	b = cursor.Append(b)
	b = append(b, `","gap":`...)
	told, err := json.Marshal(gap)
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
