package memlog

import (
	"context"

	"rejoin/stream"
)

// AppendAll implements [stream.Log]. No outcome is ever unknown here.
func (l *Log) AppendAll(ctx context.Context, ms []stream.Message) []stream.Result {
	results := make([]stream.Result, len(ms))
	for i, m := range ms {
		results[i].Appended, results[i].Err = l.Append(ctx, m)
	}
	return results
}
