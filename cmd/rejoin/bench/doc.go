// Package bench is a load generator for a Rejoin server and the judge of what
// its clients got. It is an outside client: it speaks the wire contract over
// TCP and shares no code with the server.
//
// [Run] opens subscribers, waits until each was told rejoin.ready, publishes
// numbered and time-stamped messages on an open schedule, and checks at each
// client that every acknowledged message came, once, in order, or that the
// loss was told by a rejoin.gap. [RunFloor] drives a bare write loop
// ([ServeFloor]) with the same load: the price below which no server goes.
//
// Files, one idea each:
//
//	options.go   what to run, and what is refused
//	process.go   what is measured beside: by process id or from metrics
//	run.go       the phases of a run
//	floor*.go    the bare write loop and its child process
//	stamp.go     the payload: run, channel, sequence, send time
//	publish.go   the open schedule, the publishers, what was acknowledged
//	client.go    one subscriber: its connections one after the other
//	wire.go      what a transport is to a client
//	wire_*.go    SSE, WebSocket, long-poll
//	account.go   what one subscriber got of one channel, and the verdict on it
//	spans.go     sets of sequence numbers as ranges
//	response.go  HTTP/1.1 responses that come in pieces
//	events.go    the text/event-stream format in pieces
//	frames.go    WebSocket frames in pieces
//	fleet*.go    who reads the sockets: epoll on linux, else a goroutine each
//	meter.go     counters and the latency histogram
//	machine*.go  CPU and memory, from /proc
//	openfiles*.go  the limit on open files
//	result.go, table.go, progress.go, report.go   what is shown
//
// # Concurrency
//
// A client belongs to one reader goroutine from its first connection to the
// end of the run; only after that is its account read by others. Counters
// cross goroutines through [meter] alone.
package bench
