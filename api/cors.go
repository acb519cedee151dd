package api

import (
	"net/http"
	"slices"

	"github.com/go-chi/cors"
)

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
