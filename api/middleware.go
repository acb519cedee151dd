package api

import (
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
)

// rawPath routes by the path as it was sent, so that a channel's name is
// unescaped in one place and exactly once, whatever it holds. (The router would
// take the path escaped or not, depending on what is in it.)
func rawPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chi.RouteContext(r.Context()).RoutePath = r.URL.EscapedPath()
		next.ServeHTTP(w, r)
	})
}

// answer remembers the status of an answer. It hides nothing of the writer below
// from http.ResponseController.
type answer struct {
	http.ResponseWriter
	status int // 0: nothing written yet
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// guard turns a panic into a 500, or into a cut-off answer if that has begun,
// and lets http.ErrAbortHandler pass: that is how an event stream ends. It also
// writes the debug log: never a query, which may hold a token, nor a payload.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ans := &answer{ResponseWriter: w}
		begun := time.Now()
		defer func() {
			fault := recover()
			a.logger.Debug().Str("method", r.Method).Str("path", r.URL.EscapedPath()).Int("status", ans.status).
				Dur("took", time.Since(begun)).Str("proto", r.Proto).Str("from", r.RemoteAddr).Msg("request")
			if fault == nil {
				return
			}
			if fault != http.ErrAbortHandler {
				a.logger.Error().Interface("panic", fault).Bytes("stack", debug.Stack()).Msg("a request panicked")
				if ans.status == 0 {
					a.fail(ans, r, &problem{Status: http.StatusInternalServerError, Code: codeInternal, Detail: "this is a fault of the server; its log says more"})
					return
				}
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(ans, r)
	})
}
