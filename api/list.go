package api

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"rejoin/delivery"
	"rejoin/stream"
)

// listed is a channel in the list.
type listed struct {
	Channel     string `json:"channel"`
	Subscribers int    `json:"subscribers"`
}

// list answers a page of the channels that have readers here, by name, and then
// of those that have messages, in the log's order. A page may be empty and not be
// the last.
func (a *API) list(w http.ResponseWriter, r *http.Request) error {
	params := delivery.ParseParams(r.URL.RawQuery)
	if err := params.Check("limit", "match", "cursor"); err != nil {
		return err
	}
	limit, err := limitOf(params)
	if err != nil {
		return err
	}
	q := stream.ChannelQuery{}
	if text, ok := params.Get("match"); ok {
		if q.Match, err = stream.ParsePattern(text); err != nil {
			return badRequest("match: %v", err)
		}
	}
	at := listPlace{server: a.started.UnixNano(), begun: time.Now()}
	if text, _ := params.Get("cursor"); text != "" {
		if at, err = parseListPlace(text); err != nil {
			return badRequest("cursor: %v", stream.ErrListCursor)
		}
	}

	page := []listed{}
	if !at.inLog {
		for _, name := range a.o.Broker.ChannelsRead() {
			if name <= at.after || !q.Covers(name) {
				continue
			}
			if len(page) == limit {
				at.after = page[limit-1].Channel
				return a.writeList(w, page, at.String())
			}
			page = append(page, a.listed(name))
		}
		at.inLog, at.after = true, ""
	}
	if q.Limit = limit - len(page); q.Limit == 0 {
		return a.writeList(w, page, at.String())
	}
	q.Cursor = at.after
	found, err := a.o.Log.Channels(r.Context(), q)
	if errors.Is(err, stream.ErrListCursor) {
		return badRequest("cursor: %v", stream.ErrListCursor)
	}
	if err != nil {
		return err
	}
	for _, name := range found.Names {
		// Who had readers here all the while stands in the list already.
		n, since := a.o.Broker.Readers(name)
		told := n > 0 && since.Before(at.begun) && at.server == a.started.UnixNano()
		if !told && !slices.ContainsFunc(page, func(l listed) bool { return l.Channel == name }) {
			page = append(page, listed{name, n})
		}
	}
	if found.Next == "" {
		return a.writeList(w, page, "")
	}
	at.after = found.Next
	return a.writeList(w, page, at.String())
}

func (a *API) listed(name string) listed {
	n, _ := a.o.Broker.Readers(name)
	return listed{name, n}
}

func (a *API) writeList(w http.ResponseWriter, page []listed, next string) error {
	var cursor *string
	if next != "" {
		cursor = &next
	}
	return writeJSON(w, http.StatusOK, struct {
		Channels []listed `json:"channels"`
		Cursor   *string  `json:"cursor"`
	}{page, cursor})
}

// limitOf is a page's limit=.
func limitOf(params delivery.Params) (int, error) {
	text, ok := params.Get("limit")
	if !ok {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, badRequest("limit: want a number from 1 to %d", maxLimit)
	}
	return n, nil
}

// listPlace is where a page of the list ended, and which server began the list
// when: only of that server it says whose readers stand in it.
type listPlace struct {
	server int64
	begun  time.Time
	inLog  bool
	after  string // a name, or in the log a cursor of its own
}

func (p listPlace) String() string {
	phase := "r"
	if p.inLog {
		phase = "l"
	}
	return strings.Join([]string{
		phase, strconv.FormatInt(p.server, 36), strconv.FormatInt(p.begun.UnixNano(), 36),
		base64.RawURLEncoding.EncodeToString([]byte(p.after)),
	}, ".")
}

func parseListPlace(s string) (listPlace, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 || parts[0] != "r" && parts[0] != "l" {
		return listPlace{}, errors.New("want four parts")
	}
	server, err1 := strconv.ParseInt(parts[1], 36, 64)
	begun, err2 := strconv.ParseInt(parts[2], 36, 64)
	after, err3 := base64.RawURLEncoding.DecodeString(parts[3])
	return listPlace{server, time.Unix(0, begun), parts[0] == "l", string(after)}, errors.Join(err1, err2, err3)
}
