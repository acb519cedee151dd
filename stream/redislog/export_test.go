package redislog

import "rejoin/stream"

// WithScript replaces the append's source, common.lua included.
func (o Options) WithScript(source string) Options {
	o.script = source
	return o
}

// Script is the append's source, common.lua included.
func Script() string { return commonLua + appendLua }

// Forget makes the log forget what it knows of a channel.
func (l *Log) Forget(channel string) { l.known.forget(channel) }

// SetClock makes appends take ms for the clock; 0: Redis' own.
func (l *Log) SetClock(ms uint64) { l.clock.Store(ms) }

// Learn makes the log know an id of a channel, as its journal would.
func (l *Log) Learn(channel string, id stream.ID) { l.known.heard(channel, id, 0) }

// Key names, for tests that hurt them.
func (l *Log) StreamKey(channel string) string           { return l.keys.stream(channel) }
func (l *Log) SmallKey(channel string) string            { return l.keys.small(channel) }
func (l *Log) IdempotencyKey(channel, key string) string { return l.keys.idempotency(channel, key) }
func (l *Log) JournalKey(channel string) string          { return l.keys.journal(l.keys.partition(channel)) }
func (l *Log) JournalEndKey(channel string) string {
	return l.keys.journalEnd(l.keys.partition(channel))
}
