// Package logtest is the one suite that every engine of the log passes, and a
// random model check that knows what each reader must be told.
//
// An engine's tests give it a [New]: how to make a store and open clients of
// it, as several servers would. Then:
//
//	logtest.Run(t, new)      every check, one by one
//	logtest.Model(t, new)    random sequences of everything that can happen
//	logtest.Mutants(t, …)    both must fail when a line of the append is missing
//
// Files, one idea each:
//
//	store.go    what an engine's tests provide
//	run.go      Run and its list of checks; the small helpers they share
//	check_*.go  the checks, by subject
//	campaign.go Model: many sequences, their seeds, replay
//	sequence.go one random sequence of steps, and how it is made shorter
//	model.go    the model of a channel, its servers and readers; what is left
//	state.go    what the store should hold, and what was lost of it
//	publish.go  an append, held to the rule of the append
//	reader.go   a reader, as a server serves it, and what it is owed
//	mutant.go   mutants of the append and of the rule of resume
package logtest
