// Package redistest starts real Redis processes for tests: a single server, a
// cluster, a Sentinel trio, and a TCP proxy that can cut a reply off.
//
// Everything listens on 127.0.0.1, lives in the test's temporary directory and
// is ended by the test's cleanup, by process id. A missing redis-server fails
// the test with a sentence that says so; nothing is skipped.
//
// Files: server.go one server, cluster.go and sentinel.go groups of them,
// proxy.go the proxy, proc_*.go what differs between systems.
package redistest
