package api

import (
	"context"
	"math"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"rejoin/stream"
)

// info describes a channel. One that was never used has no first and no last.
func (a *API) info(w http.ResponseWriter, r *http.Request) error {
	channel, err := channelOf(r)
	if err != nil {
		return err
	}
	b, err := a.o.Log.Bounds(r.Context(), channel)
	if err != nil {
		return err
	}
	readers, _ := a.o.Broker.Readers(channel)
	return writeJSON(w, http.StatusOK, struct {
		Channel     string     `json:"channel"`
		First       *stream.ID `json:"first"`
		Last        *stream.ID `json:"last"`
		Length      uint64     `json:"length"`
		Subscribers int        `json:"subscribers"`
	}{channel, idOrNull(b.First), idOrNull(b.Last), b.Length, readers})
}

func idOrNull(id stream.ID) *stream.ID {
	if id.IsZero() {
		return nil
	}
	return &id
}

// end ends a channel, once: asked again it is answered the same id.
func (a *API) end(w http.ResponseWriter, r *http.Request) error {
	channel, err := channelOf(r)
	if err != nil {
		return err
	}
	done, err := a.o.Log.Append(context.WithoutCancel(r.Context()), stream.Message{Channel: channel, End: stream.EndAlone})
	if err != nil {
		return during(toEnd, err)
	}
	status := http.StatusOK
	if !done.Replayed {
		status = http.StatusCreated
		a.metrics.appended.Inc()
	}
	return writeJSON(w, status, published{done.ID, channel})
}

// remove drops a channel's messages; its counter stays.
func (a *API) remove(w http.ResponseWriter, r *http.Request) error {
	channel, err := channelOf(r)
	if err != nil {
		return err
	}
	if err := a.o.Log.Delete(context.WithoutCancel(r.Context()), channel); err != nil {
		return during(toDelete, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// message answers one message. What is no id, is not there any more or is no
// message but an end alone, is not there.
func (a *API) message(w http.ResponseWriter, r *http.Request) error {
	channel, err := channelOf(r)
	if err != nil {
		return err
	}
	text, err := url.PathUnescape(chi.URLParam(r, "id"))
	if err != nil {
		return badRequest("id: a %% must be followed by two hex digits")
	}
	missing := &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "the channel has no message " + text + ", or has it no more"}
	id, err := stream.ParseID(text)
	if err != nil || id.IsZero() {
		missing.Detail = "an id is <ms>-<n>, and " + text + " is none"
		return missing
	}
	page, err := a.o.Log.Read(r.Context(), stream.Query{Channel: channel, After: below(id), Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Entries) == 0 || page.Entries[0].ID != id || page.Entries[0].End == stream.EndAlone {
		return missing
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(page.Entries[0].AppendJSON(nil, channel), '\n'))
	return nil
}

// below is the id just below one that is not zero.
func below(id stream.ID) stream.ID {
	if id.N > 0 {
		return stream.ID{MS: id.MS, N: id.N - 1}
	}
	return stream.ID{MS: id.MS - 1, N: math.MaxUint64}
}
