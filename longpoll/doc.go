// Package longpoll is the transport for clients that can only ask and be
// answered: a poll parks until there is news, and one JSON object says all of
// it. Pages that cannot read another site's answers poll by a script element
// (JSONP).
//
// The server keeps nothing for a client between two polls: the cursor of an
// answer covers exactly what is in it, so one that is lost on the way is given
// again.
//
// Files:
//
//	params.go   what a poll may ask for
//	handler.go  the handler: parks a poll until there is an answer
//	answer.go   what a poll has gathered, and its JSON
//	write.go    an answer or an error in the form that was asked for
//	jsonp.go    callback names, JSON as ASCII
//
// A Handler is safe for concurrent use; a poll belongs to one goroutine.
//
// A script element sends this site's cookies from a page of any other: whoever
// authenticates must not count them where [IsJSONP] says so.
package longpoll
