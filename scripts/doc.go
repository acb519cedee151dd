// Package scripts holds what CI and a person run, and the tests of what no
// other package can judge: who imports whom, and whether each guarantee names a
// test. The tests of the built program are in scripts/e2e.
//
// Files, one idea each:
//
//	test                the one command of all checks; --fast for the inner loop
//	bench               what it costs, against its targets; not part of test
//	imports_test.go     the order of imports
//	guarantees_test.go  docs/guarantees.md names tests that exist
//	interop/            real clients from npm, used by scripts/e2e
package scripts
