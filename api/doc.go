// Package api is Rejoin over HTTP: it publishes, reads, lets clients subscribe,
// and shows how the server is. [New] gives the two handlers of a server, one for
// everyone and one for operators; [NewServer] an http.Server with the bounds that
// long-lived connections need.
//
// Files, one idea each:
//
//	api.go         Options, New, the routes
//	publish.go     POST …/messages
//	batch.go       POST /v1/messages
//	history.go     GET …/messages
//	channel.go     one message, a channel's description, end and deletion
//	list.go        GET /v1/channels
//	subscribe.go   what comes before a transport takes over
//	auth.go        who a request is from, and what its route needs
//	problem.go     every error as RFC 9457 problem details
//	cors.go        which pages may use it
//	middleware.go  around every request: paths as sent, panics, the debug log
//	health.go      /healthz, /readyz and the proof that a message can pass
//	metrics.go     what is measured, for Prometheus
//	admin.go       the operators' handler
//	server.go      http.Server, the socket under a request
//
// Everything here is safe for concurrent use.
package api
