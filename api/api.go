package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"rejoin/api/access"
	site "rejoin/api/page"
	"rejoin/delivery"
	"rejoin/longpoll"
	"rejoin/sse"
	"rejoin/stream"
	"rejoin/ws"
)

// Options of an API. The zero value of each is useful, but for Log and Broker.
type Options struct {
	Log    stream.Log
	Broker *delivery.Broker // reads Log
	// Metrics is what Broker and Log were told to measure with; nil: a new one.
	// One serves one API.
	Metrics *Metrics
	// Logger hears of faults, and at debug of every request.
	Logger zerolog.Logger
	// Access says who may do what; nil: everyone may do everything.
	Access *access.Checker
	// Ready says whether this server takes connections: false while it starts
	// or drains. Nil: always.
	Ready func() bool

	// PayloadLimit is the largest payload of a channel in bytes; nil: 1 MiB.
	PayloadLimit func(channel string) int
	// Rewind is how many of the newest messages a reader without a cursor
	// starts with; nil: none.
	Rewind func(channel string) int
	// BatchBytes is the most that the body of a call for many messages has, and
	// the payloads it asks for together (8 MiB).
	BatchBytes int
	// MaxChannels is how many channels a connection may have (100).
	MaxChannels int
	// MaxConnections is how many readers are served at a time; 0: no limit.
	MaxConnections int
	// Origins are those whose pages may use this API; nil: none, "*": all.
	Origins []string
	// RetryMin and RetryMax are between what clients are told to wait before
	// they reconnect (500 ms, 3 s).
	RetryMin, RetryMax time.Duration
	// BodyTimeout is how long the body of a request may take to come (10 s).
	BodyTimeout time.Duration
	// Stuck is how long a write to a reader may go without progress (10 s).
	Stuck time.Duration
}

// API is a server's two handlers.
type API struct {
	// Public is for everyone: publish, read, subscribe, health.
	Public http.Handler
	// Admin is for operators: health, metrics, profiles.
	Admin http.Handler

	o       Options
	metrics *Metrics
	logger  zerolog.Logger
	rare    zerolog.Logger // for what may happen at every request while the log is away
	crowd   zerolog.Logger // for readers that are refused
	started time.Time
	events  *sse.Handler
	polls   *longpoll.Handler
	sockets *ws.Handler
	probe   probe
}

// New makes the handlers. It starts no goroutine.
func New(o Options) *API {
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = 10 * time.Second
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = DefaultBatchBytes
	}
	a := &API{
		o:       o,
		metrics: o.Metrics,
		logger:  o.Logger,
		rare:    o.Logger.Sample(&zerolog.BurstSampler{Burst: 1, Period: 5 * time.Second}),
		crowd:   o.Logger.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute}),
		started: time.Now(),
		events: sse.New(sse.Options{
			Broker: o.Broker, RetryMin: o.RetryMin, RetryMax: o.RetryMax, Stuck: o.Stuck, Problem: problemBody,
		}),
		probe: probe{log: o.Log, broker: o.Broker},
	}
	a.polls = longpoll.New(longpoll.Options{
		Broker: o.Broker, RetryMin: o.RetryMin, RetryMax: o.RetryMax, Stuck: o.Stuck, Fail: a.failPoll,
	})
	a.sockets = ws.New(ws.Options{
		Broker: o.Broker, RetryMin: o.RetryMin, RetryMax: o.RetryMax, Stuck: o.Stuck, Problem: problemBody,
		MaxChannels: o.MaxChannels, Rewind: o.Rewind,
		CheckOrigin: a.checkOrigin, Grant: socketGrant, Auth: a.socketAuth,
	})
	o.Metrics.watch(o.Broker)
	a.Public = a.public()
	a.Admin = a.admin()
	return a
}

// Wait returns when every connection that was taken over has ended; closing the
// broker ends them all. No request may come meanwhile.
func (a *API) Wait() {
	a.sockets.Wait()
	a.polls.Wait()
}

// payloadLimit is the largest payload of a channel in bytes.
func (a *API) payloadLimit(channel string) int {
	if a.o.PayloadLimit == nil {
		return 1 << 20
	}
	return a.o.PayloadLimit(channel)
}

// public is the handler for everyone.
func (a *API) public() http.Handler {
	r := a.router(crossOrigin(a.o.Origins), a.ownPages)
	r.Post("/v1/channels/{channel}/messages", a.handle(a.may(publishing, a.publish)))
	r.Post("/v1/channels/{channel}/end", a.handle(a.may(publishing, a.end)))
	r.Post("/v1/messages", a.handle(a.may(publishing, a.publishMany)))
	r.Get("/v1/channels/{channel}/messages", a.handle(a.may(reading, a.history)))
	r.Get("/v1/channels/{channel}/messages/{id}", a.handle(a.may(reading, a.message)))
	r.Get("/v1/channels/{channel}", a.handle(a.may(reading, a.info)))
	r.Get("/v1/channels", a.handle(a.may(administering, a.list)))
	r.Delete("/v1/channels/{channel}", a.handle(a.may(administering, a.remove)))
	r.Get("/v1/sse", a.handle(a.may(reading, a.subscribeSSE)))
	r.Get("/v1/poll", a.handlePoll(a.may(reading, a.subscribePoll)))
	r.Get("/v1/ws", a.handle(a.may(reading, a.subscribeWS)))
	r.Handle("/v1/channels/{channel}/stream", a.handle(func(_ http.ResponseWriter, r *http.Request) error {
		// A client must not take it for a typing error of its own.
		return &problem{
			Status: http.StatusNotFound, Code: codeNotFound,
			Detail: r.Method + " " + r.URL.EscapedPath() + ": this version does not serve publishing a growing body yet",
		}
	}))
	files := site.Handler()
	for _, path := range site.Paths {
		r.Method(http.MethodGet, path, files)
		r.Method(http.MethodHead, path, files)
	}
	return r
}

// router is what both handlers stand on: problems for what is not there, health.
func (a *API) router(middlewares ...func(http.Handler) http.Handler) *chi.Mux {
	r := chi.NewRouter()
	r.Use(middlewares...)
	r.Use(a.guard, rawPath)
	r.NotFound(a.handle(func(_ http.ResponseWriter, r *http.Request) error {
		return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "there is nothing at " + r.URL.EscapedPath()}
	}))
	r.MethodNotAllowed(a.handle(func(w http.ResponseWriter, r *http.Request) error {
		allowed := strings.Join(allowedMethods(r), ", ")
		w.Header().Set("Allow", allowed)
		return &problem{
			Status: http.StatusMethodNotAllowed, Code: codeMethodNotAllowed,
			Detail: r.Method + " is not for " + r.URL.EscapedPath() + "; it takes " + allowed,
		}
	}))
	for pattern, h := range map[string]http.HandlerFunc{"/healthz": healthz, "/readyz": a.handle(a.readyz)} {
		r.Get(pattern, h)
		r.Head(pattern, h)
	}
	return r
}

// allowedMethods are those a request's path has a route for.
func allowedMethods(r *http.Request) []string {
	var allowed []string
	routes := chi.RouteContext(r.Context()).Routes
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), method, r.URL.EscapedPath()) {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
