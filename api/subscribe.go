package api

import (
	"net/http"
	"slices"

	"rejoin/delivery"
)

// subscribeSSE reads the request and leaves the rest to the transport.
func (a *API) subscribeSSE(w http.ResponseWriter, r *http.Request) error {
	// A browser never comes back after a 400, so an unreadable cursor is told
	// as a reset.
	req, err := a.subscribeRequest(r, true)
	if err != nil {
		return err
	}
	return a.events.Serve(w, r, req)
}

// subscribeRequest reads what all transports share, sees that the client may read
// what it asks for, and readies the socket for a long connection.
func (a *API) subscribeRequest(r *http.Request, lostCursor bool) (delivery.Request, error) {
	req, err := delivery.ParseRequest(r.URL.RawQuery, lastEventID(r), delivery.RequestRules{
		Now:         a.o.Log.Now(),
		MaxChannels: a.o.MaxChannels,
		Rewind:      a.o.Rewind,
		LostCursor:  lostCursor,
	})
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
