// Package e2e tests the program as it is built, from outside: real processes,
// real sockets, a real Redis, a real browser. It shares no code with the server.
//
// Files, one idea each:
//
//	main_test.go           the program, built once, with and without the race detector
//	server_test.go         a server process: start, kill, start again, its log and metrics
//	reader_test.go         a reader with an event stream parser of its own, and its account
//	publisher_test.go      a publisher that gives up on no message
//	client_test.go         curl and Chromium's EventSource as readers
//	transports_test.go     a client that takes one cursor to any transport
//
//	hop_test.go            two servers on one Redis
//	hop_transports_test.go the same, and three transports
//	outage_test.go         a server and a Redis that die and come back
//	loss_test.go           a log that is wiped, rolled back, hangs, or whose answers get lost
//	churn_test.go          a thousand short lives; thousands that leave at once
//	redis_test.go          what is in Redis, and what readers and channels cost it
//	payload_test.go        every kind of payload, by two parsers and in history
//	page_test.go           the page at /, used by Chromium as a visitor would
//	clients_test.go        clients from npm, browsers, curl, Python
//	clients_doc_test.go    docs/clients.md, written and compared
//	ie_test.go             a page without anything newer than XMLHttpRequest
//	proxy_test.go          behind nginx and HAProxy, by the files of deploy
//	readme_test.go         the README's first lines, run as they stand
//	docs_test.go           docs/protocol.md: its examples, tables, and what it says is not built
package e2e
