// Package stream holds the words and the contract of the log: [ID], [Entry],
// [Cursor], the resume rule as a pure function ([Resume]) and the interface an
// engine implements ([Log], [Session]).
//
// It imports nothing but the standard library; the engines live below it
// (stream/memlog, stream/redislog) and pass one suite (stream/logtest).
//
// Files, one idea each:
//
//	id.go       ID, its text form and order
//	channel.go  channel names, patterns over them, their hash
//	cursor.go   Cursor as a client sends it; Positions, as a server sends it
//	entry.go    Message (to append), Entry (as read)
//	resume.go   the rule: what a reader with this cursor must be told
//	log.go      Log, Session, Query, Page, Mark
//	errors.go   the kinds of failure and what each promises
package stream
