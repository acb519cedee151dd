package api

import (
	"net/http"
	"slices"
	"time"

	"rejoin/delivery"
	"rejoin/longpoll"
)

// subscribeSSE reads the request and leaves the rest to the transport.
func (a *API) subscribeSSE(w http.ResponseWriter, r *http.Request) error {
	// A browser never comes back after an error status, so an unreadable cursor
	// is told as a reset, and a server that is full tells it in a stream.
	req, err := a.subscribeRequest(r, delivery.RequestRules{LostCursor: true})
	if err != nil {
		return err
	}
	if full := a.full(); full != nil {
		a.events.Refuse(w, a.note(full).body())
	}
	return a.events.Serve(w, r, req)
}

// subscribePoll reads the request and leaves the rest to the transport.
func (a *API) subscribePoll(w http.ResponseWriter, r *http.Request) error {
	req, err := a.subscribeRequest(r, delivery.RequestRules{})
	if err != nil {
		return err
	}
	if full := a.full(); full != nil {
		return full
	}
	return a.polls.Serve(w, r, req)
}

// subscribeWS reads the request and leaves the rest to the transport.
func (a *API) subscribeWS(w http.ResponseWriter, r *http.Request) error {
	req, err := a.subscribeRequest(r, delivery.RequestRules{NoChannels: true})
	if err != nil {
		return err
	}
	if full := a.full(); full != nil {
		return full
	}
	return a.sockets.Serve(w, r, req)
}

// handlePoll is [API.handle] for long-poll, whose clients cannot always see a
// status or a header.
func (a *API) handlePoll(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			a.failPoll(w, r, err)
		}
	}
}

// failPoll answers a poll with an error, in the form it asked for.
func (a *API) failPoll(w http.ResponseWriter, r *http.Request, err error) {
	p := a.note(err)
	p.setHead(w.Header(), r)
	longpoll.WriteError(w, r, p.Status, p.body())
}

// subscribeRequest reads what all transports share, sees that the client may read
// what it asks for, and readies the socket for a long connection. What the rules
// are for all transports it fills in.
func (a *API) subscribeRequest(r *http.Request, rules delivery.RequestRules) (delivery.Request, error) {
	rules.Now, rules.MaxChannels, rules.Rewind = a.o.Log.Now(), a.o.MaxChannels, a.o.Rewind
	req, err := delivery.ParseRequest(r.URL.RawQuery, lastEventID(r), rules)
	if err != nil {
		return delivery.Request{}, err
	}
	for _, c := range req.Channels {
		if err := mayRead(r, c.Name); err != nil {
			return delivery.Request{}, err
		}
	}
	req.Expires = grantOf(r).Expires
	detectDeath(r.Context(), req.Heartbeat)
	return req, nil
}

// comeBackLater is when a client that found the server full may try again.
const comeBackLater = 30 * time.Second

// full is the problem of a server that has as many readers as it may; nil if it
// has fewer. Some that come at the same moment may go beyond.
func (a *API) full() *problem {
	if a.o.MaxConnections <= 0 || a.o.Broker.Subscriptions() < a.o.MaxConnections {
		return nil
	}
	a.crowd.Warn().Int("limit", a.o.MaxConnections).Msg("limits.connections is reached: readers are refused")
	return &problem{
		Status: http.StatusTooManyRequests, Code: codeTooMany, retryAfter: comeBackLater,
		Detail: "this server has as many readers as it may",
	}
}

// lastEventID is the header of that name: the last one when repeated, an empty
// one is none.
func lastEventID(r *http.Request) string {
	for _, v := range slices.Backward(r.Header.Values("Last-Event-ID")) {
		if v != "" {
			return v
		}
	}
	return ""
}
