package redislog

import (
	"strconv"
	"strings"

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

// streams is the glob of the streams of all channels that a pattern may cover.
func (k keyspace) streams(match stream.Pattern) string {
	head, _, open := strings.Cut(match.String(), "*")
	if open || head == "" {
		head = strings.TrimSuffix(head, ".") + "*" // a.** covers a
	}
	return glob.Replace(k.prefix) + ":{*}:c:" + head // a name has no character to escape
}

// glob escapes what means something in a pattern of SCAN.
var glob = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// channel is the channel whose stream a key is.
func (k keyspace) channel(key string) (name string, ok bool) {
	_, name, ok = strings.Cut(key, "}:c:")
	return name, ok && stream.CheckChannel(name) == nil && k.stream(name) == key
}
