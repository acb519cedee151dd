package delivery

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// Holds G30, G33.
func TestParseRequestStarts(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	id := stream.ID{MS: 1764530000123, N: 42}
	other := stream.ID{MS: 1764530000999, N: 7}
	both := stream.NewPositions([]string{"a", "b"})
	both.Set("a", id)
	both.Set("b", other)
	onlyA := "1~" + strconv.FormatUint(stream.ChannelHash("a"), 36) + "." + strconv.FormatUint(id.MS, 36) + "." + strconv.FormatUint(id.N, 36)

	rules := RequestRules{Now: now}
	ruled := RequestRules{Now: now, Rewind: func(c string) int {
		if c == "b" {
			return 1
		}
		return 0
	}}
	for name, c := range map[string]struct {
		query, header string
		rules         RequestRules
		want          []Start
	}{
		"live":                {"channel=a", "", rules, []Start{{}}},
		"live, rule":          {"channel=a&channel=b", "", ruled, []Start{{}, StartRewind(1)}},
		"header":              {"channel=a", "1764530000123-42", rules, []Start{StartAfter(id)}},
		"header over query":   {"channel=a&lastEventId=5-5", "1764530000123-42", rules, []Start{StartAfter(id)}},
		"empty header":        {"channel=a&lastEventId=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"lastEventId":         {"channel=a&lastEventId=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"last_event_id":       {"channel=a&last_event_id=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"lastEventID":         {"channel=a&lastEventID=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"Last-Event-ID":       {"channel=a&Last-Event-ID=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"Last-Event-Id":       {"channel=a&Last-Event-Id=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"evs_last_event_id":   {"channel=a&evs_last_event_id=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"the last repeated":   {"channel=a&lastEventId=5-5&lastEventId=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"the last spelling":   {"channel=a&lastEventId=5-5&evs_last_event_id=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"reversed spellings":  {"evs_last_event_id=5-5&channel=a&lastEventId=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"empty is none":       {"channel=a&lastEventId=", "", rules, []Start{{}}},
		"empty behind one":    {"channel=a&lastEventId=1764530000123-42&lastEventId=", "", rules, []Start{StartAfter(id)}},
		"earliest":            {"channel=a&channel=b&lastEventId=earliest", "", rules, []Start{StartAfter(stream.Earliest), StartAfter(stream.Earliest)}},
		"zero":                {"channel=a&channel=b&lastEventId=0", "", rules, []Start{StartAfter(stream.Earliest), StartAfter(stream.Earliest)}},
		"0-0":                 {"channel=a&channel=b&lastEventId=0-0", "", rules, []Start{StartAfter(stream.Earliest), StartAfter(stream.Earliest)}},
		"before the first":    {"channel=a&lastEventId=1-0", "", rules, []Start{StartAfter(stream.BeforeFirst)}},
		"whole cursor":        {"channel=b&channel=a", both.String(), rules, []Start{StartAfter(other), StartAfter(id)}},
		"whole cursor of one": {"channel=a", both.String(), rules, []Start{StartAfter(id)}},
		"lacking, live":       {"channel=a&channel=b", onlyA, rules, []Start{StartAfter(id), {}}},
		"lacking, rewind":     {"channel=a&channel=b&rewind=3", onlyA, rules, []Start{StartAfter(id), StartRewind(3)}},
		"lacking, rule":       {"channel=a&channel=b", onlyA, ruled, []Start{StartAfter(id), StartRewind(1)}},
		"rewind":              {"channel=a&channel=b&rewind=3", "", rules, []Start{StartRewind(3), StartRewind(3)}},
		"rewind over rule":    {"channel=b&rewind=0", "", ruled, []Start{{}}},
		"since RFC 3339":      {"channel=a&since=2026-01-31T11:00:00.5Z", "", rules, []Start{StartSince(now.Add(-time.Hour + time.Second/2))}},
		"since Unix ms":       {"channel=a&since=1764530000123", "", rules, []Start{StartSince(time.UnixMilli(1764530000123))}},
		"since a span":        {"channel=a&since=10m", "", rules, []Start{StartSince(now.Add(-10 * time.Minute))}},
		"cursor over since":   {"channel=a&since=10m&lastEventId=1764530000123-42", "", rules, []Start{StartAfter(id)}},
		"channel once":        {"channel=a&channel=a", "", rules, []Start{{}}},
		"unknown ignored":     {"channel=a&_=17&timeout=x&limit=x&callback=)&wait=x&status=x", "", rules, []Start{{}}},
		"a stranger's %":      {"channel=a&_=50%&x=%zz&%zz=1&chann%=b&callback=%", "", rules, []Start{{}}},
		"escaped name":        {"channel=a%3Ab%2Bc", "", rules, []Start{{}}},
		"lost":                {"channel=a&channel=b", "what", RequestRules{LostCursor: true}, []Start{StartLost(), StartLost()}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRequest(c.query, c.header, c.rules)
			require.NoError(t, err)
			var got []Start
			for _, c := range r.Channels {
				got = append(got, c.Start)
			}
			require.Equal(t, c.want, got)
			require.Equal(t, DefaultHeartbeat, r.Heartbeat)
		})
	}
	r, err := ParseRequest("channel=a&since=2026-01-31T13:00:00%2B01:00", "", rules)
	require.NoError(t, err)
	require.True(t, r.Channels[0].Start.since.Equal(now))
	r, err = ParseRequest("channel=a&since=2026-01-31T13:00:00+01:00", "", rules)
	require.NoError(t, err, "an unescaped + of a zone")
	require.True(t, r.Channels[0].Start.since.Equal(now))
}

// Holds G35, G36.
func TestParseRequestRefuses(t *testing.T) {
	for query, name := range map[string]string{
		"":                                  "channel",
		"channel=":                          "channel",
		"channel=a%2Fb":                     "channel",
		"channel=a+b":                       "channel",
		"channel=..":                        "channel",
		"channel=%ff":                       "channel",
		"channel=a&channel=%zz":             "channel",
		"channel=a&chann%65l=50%":           "channel",
		"channel=a&rewind=%":                "rewind",
		"channel=a&since=%1":                "since",
		"channel=a&heartbeat=%zz":           "heartbeat",
		"channel=a&conflate=%zz":            "conflate",
		"channel=a&evs_last_event_id=%zz":   "evs_last_event_id",
		"channel=a&rewind=":                 "rewind",
		"channel=a&rewind=-1":               "rewind",
		"channel=a&rewind=1.5":              "rewind",
		"channel=a&rewind=99999999999":      "rewind",
		"channel=a&rewind=1&rewind=x":       "rewind",
		"channel=a&rewind=1&since=1m":       "rewind",
		"channel=a&since=":                  "since",
		"channel=a&since=yesterday":         "since",
		"channel=a&since=-5m":               "since",
		"channel=a&since=99999999999999999": "since",
		"channel=a&heartbeat=":              "heartbeat",
		"channel=a&heartbeat=4s":            "heartbeat",
		"channel=a&heartbeat=121s":          "heartbeat",
		"channel=a&heartbeat=15":            "heartbeat",
		"channel=a&conflate=100ms":          "conflate",
		"channel=a&lastEventId=what":        "lastEventId",
		"channel=a&channel=b&last_event_id=1764530000123-42": "last_event_id",
		"channel=a&channel=b&lastEventID=1-0":                "lastEventID",
	} {
		_, err := ParseRequest(query, "", RequestRules{})
		bad, ok := errors.AsType[*RequestError](err)
		require.True(t, ok, query)
		require.Equal(t, name, bad.Name, query)
		require.NotEmpty(t, bad.Reason)
	}
	_, err := ParseRequest("channel=a&channel=b", "1-1", RequestRules{LostCursor: true})
	require.ErrorContains(t, err, "Last-Event-ID", "a bare id is readable, but not enough")

	many := strings.Repeat("channel=a&", 5) + "channel=b&channel=c"
	_, err = ParseRequest(many, "", RequestRules{MaxChannels: 2})
	require.ErrorContains(t, err, "channel: more than 2")
	r, err := ParseRequest(many, "", RequestRules{MaxChannels: 3})
	require.NoError(t, err)
	require.Len(t, r.Channels, 3)
}

// Holds G42.
func TestHeartbeat(t *testing.T) {
	for _, d := range []time.Duration{MinHeartbeat, 20 * time.Second, MaxHeartbeat} {
		r, err := ParseRequest("channel=a&heartbeat="+d.String(), "", RequestRules{})
		require.NoError(t, err)
		require.Equal(t, d, r.Heartbeat)
	}
}
