// Package redislog is the log in Redis 7: a [stream.Log] that several servers
// share, on a single Redis, behind Sentinels or in a Cluster.
//
// A channel is one stream; a Lua script appends to it and, in the same act, to
// the journal of the channel's partition, by which servers hear of news. The
// keys of a partition share a hash tag, so no command crosses slots:
//
//	rejoin:{p}:c:<channel>        the stream; fields v, p, b, payload, event, key, end
//	rejoin:{p}:m:<channel>        "<last id> <b> <floor> <size> <ended>", outlives the stream
//	rejoin:{p}:k:<channel>,<key>  an idempotency key: "<id> <hash>"
//	rejoin:{p}:j                  the journal; fields c, i, s, p
//	rejoin:{p}:jm                 the journal's last id
//	rejoin:{0}:partitions         how many partitions there are
//
// Files, one idea each:
//
//	options.go   Options; url.go: the address they hold
//	log.go       Log and its calls; keys.go: the names above
//	append.go    the append and the delete; common.lua, append.lua, delete.lua
//	batch.go     several appends in a pipeline; channels.go: the list of channels
//	known.go     what is remembered of channels: newest id, size
//	look.go      one query answered; scan.go: a range read in bounded replies
//	entry.go     replies to entries
//	session.go   a session; journal.go: its reader; audit.go: its watchman
//	topology.go  who is master of a part; sentinel.go, cluster.go: who knows
//	node.go      clients for appends and history; link.go: their connections
//	failure.go   what an error of go-redis or Redis means
//
// Concurrency: each mutex says what it guards; none is held over a call to Redis.
// What a silent Redis may delay is bounded: a call by Options.Timeout, a session
// by its audit.
//
// What Redis must allow (ACL): on the keys of the prefix EVAL, EVALSHA, GET, SET,
// SETNX, MGET, EXISTS, TYPE, DEL, PEXPIRE, XADD, XTRIM, XLEN, XRANGE, XREVRANGE,
// XREAD, XINFO; further TIME, SCAN, CLUSTER SLOTS in a Cluster, and ROLE, without
// which a replica is not told from a master.
//
// In a Cluster, cluster-require-full-coverage no lets the other parts live on
// while one is away. A slot on the move is away until it has arrived.
//
// Memory in Redis is bounded without a sweep: each append trims its channel by
// count and by age (whole nodes of the stream, so somewhat more is stored than
// served), and a channel gone silent expires when its last message is too old.
package redislog
