// Package ws is the WebSocket transport: its frames, what a client may send,
// and the connection between them. Source: RFC 6455, on HTTP/1.1. There is no
// compression, so that one encoding of a message serves all its readers.
//
// Every frame is a JSON object with a type. A client that wants to resume keeps
// one id for each channel: that of its last message or end, or the cursor in
// ready, subscribed and gap, whichever came last. It resumes by the after of a
// subscribe frame, or by the query of the next handshake: the id itself for one
// channel, 1~… for several, which it builds as the contract says; until a
// message came, ready's own cursor is that.
//
// Files:
//
//	handshake.go  is this a request for a WebSocket, from a page that may
//	handler.go    options, from the request to the connection
//	frame.go      items to bytes, pure functions
//	reader.go     bytes to messages, a state machine without a clock or socket
//	command.go    what a client's message asks for
//	session.go    doing it
//	mailbox.go    what is left for the writer
//	close.go      how connections are closed
//	pump.go       a connection written to by a pump of the broker
//	pull.go       a connection with two goroutines of its own
//
// A Handler is safe for concurrent use. A connection has a read goroutine, which
// owns the session, and one writer at a time; the mailbox is all they share. The
// writer is a pump where there is one, for plain TCP, else a goroutine.
package ws
