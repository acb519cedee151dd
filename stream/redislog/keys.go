package redislog

import (
	"strconv"

	"rejoin/stream"
)

// keyspace names the keys; see the package's doc.
type keyspace struct {
	prefix     string
	partitions int
}

func (k keyspace) partition(channel string) int {
	return int(stream.ChannelHash(channel) % uint64(k.partitions))
}

func (k keyspace) base(partition int) string {
	return k.prefix + ":{" + strconv.Itoa(partition) + "}:"
}

func (k keyspace) journal(partition int) string    { return k.base(partition) + "j" }
func (k keyspace) journalEnd(partition int) string { return k.base(partition) + "jm" }
func (k keyspace) count() string                   { return k.base(0) + "partitions" }

func (k keyspace) stream(channel string) string { return k.base(k.partition(channel)) + "c:" + channel }
func (k keyspace) small(channel string) string  { return k.base(k.partition(channel)) + "m:" + channel }

// idempotency is unambiguous: a channel's name has no comma.
func (k keyspace) idempotency(channel, key string) string {
	return k.base(k.partition(channel)) + "k:" + channel + "," + key
}
