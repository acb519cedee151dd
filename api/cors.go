package api

import (
	"net/http"
	"slices"

	"github.com/go-chi/cors"
)

// ownPages refuses what changes something, when a browser says that a page of
// another origin asks for it: such a request needs no preflight and no readable
// answer to do its harm. Pages of the given origins may; with "*" all. Clients
// that are no browsers say nothing of an origin. See [http.CrossOriginProtection].
func (a *API) ownPages(next http.Handler) http.Handler {
	if a.anyPage() {
		return next
	}
	p := http.NewCrossOriginProtection()
	for _, origin := range a.o.Origins {
		if err := p.AddTrustedOrigin(origin); err != nil {
			panic(err) // origins have been checked
		}
	}
	p.SetDenyHandler(a.handle(func(http.ResponseWriter, *http.Request) error {
		return &problem{
			Status: http.StatusForbidden, Code: codeForbidden,
			Detail: "pages of this origin may not publish or delete: see cors.origins; nothing was done",
		}
	}))
	return p.Handler(next)
}

// crossOrigin answers preflights and lets pages of the given origins read
// answers, errors included. No origins: none but the same. With "*" every page
// may, but never with a cookie.
func crossOrigin(origins []string) func(http.Handler) http.Handler {
	o := cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders: []string{
			"Last-Event-ID", "Cache-Control", "Authorization", "Content-Type", "Idempotency-Key",
			"X-Requested-With", "traceparent",
		},
		ExposedHeaders:   []string{"Last-Event-ID", "Location", "Retry-After", "Idempotent-Replayed"},
		AllowCredentials: !slices.Contains(origins, "*"),
		MaxAge:           24 * 60 * 60,
	}
	if len(origins) == 0 {
		// Without this the library would allow all.
		o.AllowOriginFunc = func(*http.Request, string) bool { return false }
	}
	return cors.Handler(o)
}
