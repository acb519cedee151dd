// Package sse is the event-stream transport: its frames, and a handler that
// pulls from a subscription and writes them. Source: the WHATWG HTML standard,
// section "Server-sent events".
//
// Files:
//
//	frame.go    items to bytes, pure functions
//	handler.go  the handshake and the loop of one connection
//
// A Handler is safe for concurrent use; an Encoder belongs to one connection.
package sse
