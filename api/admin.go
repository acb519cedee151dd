package api

import (
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// admin is the handler for operators. It asks for no token: its listener is the
// bound.
func (a *API) admin() http.Handler {
	r := a.router()
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	r.Get("/debug/pprof/*", pprof.Index) // and each profile by its name
	r.Get("/debug/pprof/cmdline", pprof.Cmdline)
	r.Get("/debug/pprof/profile", pprof.Profile)
	r.Get("/debug/pprof/trace", pprof.Trace)
	r.Get("/debug/pprof/symbol", pprof.Symbol)
	r.Post("/debug/pprof/symbol", pprof.Symbol)
	return r
}
