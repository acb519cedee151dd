// Package scripts holds what CI and a person run, and the tests of what no
// other package can judge: who imports whom, what the documents claim, what the
// README's lines do. The tests of the built program, over real sockets and a
// real Redis, are in scripts/e2e.
//
// Files, one idea each:
//
//	test                the one command of all checks; --fast for the inner loop
//	imports_test.go     the order of imports
//	guarantees_test.go  docs/guarantees.md names tests that exist
//	readme_test.go      the README's first lines, run as they stand
//	docs_test.go        docs/protocol.md names what the server has
//	interop/            real clients from npm, used by scripts/e2e
package scripts
