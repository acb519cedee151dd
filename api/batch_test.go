package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// result is what became of one message of a batch.
type result struct {
	ID       stream.ID
	Channel  string
	Replayed bool
	Error    *struct {
		Type, Title, Detail, Code string
		Status                    int
	}
}

func (w *world) many(body string) []result {
	w.t.Helper()
	a := w.do("POST", "/v1/messages", body)
	require.Equal(w.t, 200, a.StatusCode, a.body)
	require.Equal(w.t, "application/json", a.Header.Get("Content-Type"))
	require.Equal(w.t, "no-store", a.Header.Get("Cache-Control"))
	var answer struct{ Results []result }
	in := json.NewDecoder(strings.NewReader(a.body))
	in.DisallowUnknownFields()
	require.NoError(w.t, in.Decode(&answer), a.body)
	return answer.Results
}

// errorCodes are the results' error codes, "" for none.
func errorCodes(results []result) (all []string) {
	for _, r := range results {
		code := ""
		if r.Error != nil {
			code = r.Error.Code
		}
		all = append(all, code)
	}
	return all
}

// Many messages are answered in their order, and read as they were written.
// Holds G80.
func TestPublishMany(t *testing.T) {
	w := newWorld(t, Options{})
	results := w.many(`{"messages":[
		{"channel":"a","payload":"one","event":"e","key":"k","idempotency_key":"x"},
		{"channel":"b","payload": {"n" : [1, "two", null], "s":"\u2028"}},
		{"channel":"a","payload":""},
		{"channel":"a","payload":7},{"channel":"a","payload":null},{"channel":"a","payload":"\ud83d\ude00\\ud83d\u0000"},
		{"channel":"a","payload":"one","event":"e","key":"k","idempotency_key":"x"}
	]}`)
	require.Len(t, results, 7)
	require.Equal(t, make([]string, 7), errorCodes(results))
	require.Equal(t, "b", results[1].Channel)
	require.Equal(t, results[0].ID, results[6].ID)
	require.True(t, results[6].Replayed)
	require.False(t, results[0].Replayed)

	p := w.history("a", "")
	var payloads, ids []string
	for _, m := range p.Messages {
		payloads, ids = append(payloads, m.Payload), append(ids, m.ID)
	}
	require.Equal(t, []string{"one", "", "7", "null", "😀\\ud83d\x00"}, payloads)
	require.Equal(t, []string{results[0].ID.String(), results[2].ID.String(), results[3].ID.String(), results[4].ID.String(), results[5].ID.String()}, ids)
	require.Equal(t, []string{"e", "k"}, []string{p.Messages[0].Event, p.Messages[0].Key})
	require.Equal(t, `{"n":[1,"two",null],"s":"\u2028"}`, w.history("b", "").payloads(), "its compact JSON text")
	require.Contains(t, w.request("GET", w.admin+"/metrics", strings.NewReader("")).body, "rejoin_appended_total 6")
}

// One payload on many channels; the idempotency key holds for each.
// Holds G82.
func TestBroadcast(t *testing.T) {
	w := newWorld(t, Options{})
	const body = `{"channels":["a","b","a:c"],"payload":{"x": 1},"event":"e","key":"k","idempotency_key":"i"}`
	first := w.many(body)
	require.Equal(t, make([]string, 3), errorCodes(first))
	again := w.many(strings.Replace(body, `["a"`, `["d","a"`, 1))
	require.Equal(t, []bool{false, true, true, true}, []bool{again[0].Replayed, again[1].Replayed, again[2].Replayed, again[3].Replayed})
	for i, channel := range []string{"a", "b", "a:c"} {
		require.Equal(t, channel, first[i].Channel)
		require.Equal(t, first[i].ID, again[i+1].ID)
		p := w.history(channel, "")
		require.Len(t, p.Messages, 1)
		m := p.Messages[0]
		require.Equal(t, []string{`{"x":1}`, "e", "k"}, []string{m.Payload, m.Event, m.Key})
	}
	require.Equal(t, []string{"idempotency_conflict", ""}, errorCodes(w.many(`{"channels":["a","e"],"payload":"other","idempotency_key":"i"}`)))
}

// A message that is refused is told by a problem at its place, stops no other,
// and is not appended.
// Holds G80.
func TestOneOfManyIsRefused(t *testing.T) {
	w := newWorld(t, Options{PayloadLimit: func(channel string) int {
		if channel == "small" {
			return 4
		}
		return 1 << 20
	}})
	_, err := w.log.Append(t.Context(), stream.Message{Channel: "ended", End: stream.EndAlone})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		message, code, detail string
		status                int
	}{
		"channel":             {`{"channel":"a/b","payload":"x"}`, "bad_request", "channel: ", 400},
		"channel escaped":     {`{"channel":"a%3Ab","payload":"x"}`, "bad_request", "channel: ", 400},
		"no channel":          {`{"payload":"x"}`, "bad_request", "channel: ", 400},
		"channel a number":    {`{"channel":5,"payload":"x"}`, "bad_request", `"channel"`, 400},
		"no payload":          {`{"channel":"a"}`, "bad_request", "payload: ", 400},
		"half a character":    {`{"channel":"a","payload":"\ud83d"}`, "bad_request", "payload: ", 400},
		"its other half":      {`{"channel":"a","payload":"x\ude00"}`, "bad_request", "payload: ", 400},
		"two first halves":    {`{"channel":"a","payload":"\ud83d\ud83d"}`, "bad_request", "payload: ", 400},
		"event":               {`{"channel":"a","payload":"x","event":"rejoin.x"}`, "bad_request", "event: ", 400},
		"event with LF":       {`{"channel":"a","payload":"x","event":"a\nb"}`, "bad_request", "event: ", 400},
		"idempotency key":     {`{"channel":"a","payload":"x","idempotency_key":""}`, "bad_request", "idempotency_key: ", 400},
		"long key":            {`{"channel":"a","payload":"x","idempotency_key":"` + strings.Repeat("k", 201) + `"}`, "bad_request", "idempotency_key: ", 400},
		"misspelt field":      {`{"channel":"a","payload":"x","idempotencyKey":"i"}`, "bad_request", "idempotencyKey", 400},
		"reserved name":       {`{"channel":"a","payload":"x","headers":{}}`, "bad_request", "headers", 400},
		"no object":           {`"a"`, "bad_request", "", 400},
		"null":                {`null`, "bad_request", "want a JSON object", 400},
		"another case":        {`{"channel":"a","Payload":"x"}`, "bad_request", `"Payload"`, 400},
		"a Kelvin sign":       {`{"channel":"a","payload":"x","event":"e","idempotency_\u212aey":"x"}`, "bad_request", "unknown field", 400},
		"twice":               {`{"channel":"a","payload":"x","payload":"y"}`, "bad_request", `"payload" stands there twice`, 400},
		"twice, escaped":      {`{"channel":"good","payload":"x","ch\u0061nnel":"a"}`, "bad_request", `"channel" stands there twice`, 400},
		"too large":           {`{"channel":"small","payload":"12345"}`, "payload_too_large", "4 bytes", 413},
		"ended":               {`{"channel":"ended","payload":"x"}`, "channel_ended", "", 409},
		"compacted, too much": {`{"channel":"small","payload":[ 1, 2 ]}`, "payload_too_large", "4 bytes", 413},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			before := w.history("good", "limit=1000")
			bounds, err := w.log.Bounds(t.Context(), "a")
			require.NoError(t, err)
			results := w.many(`{"messages":[{"channel":"good","payload":"1"},` + c.message + `,{"channel":"good","payload":"2"}]}`)
			require.Equal(t, []string{"", c.code, ""}, errorCodes(results))
			p := results[1].Error
			require.Equal(t, c.status, p.Status)
			require.Equal(t, "about:blank", p.Type)
			require.NotEmpty(t, p.Title)
			require.Contains(t, p.Detail, c.detail)
			require.NotEmpty(t, p.Detail)
			require.Len(t, w.history("good", "limit=1000").Messages, len(before.Messages)+2)
			after, err := w.log.Bounds(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, bounds, after, "appended")
		})
	}
	require.Equal(t, []string{""}, errorCodes(w.many(`{"messages":[{"channel":"small","payload":"1234"}]}`)))
}

// What cannot be read at all is refused as a whole, and nothing is appended.
// Holds G83.
func TestManyAreRefused(t *testing.T) {
	w := newWorld(t, Options{BatchBytes: 1000})
	list := func(n int) string {
		return strings.TrimSuffix(strings.Repeat("0,", n), ",")
	}
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		code   string
		detail string
	}{
		"empty":             {"", nil, 400, "bad_request", `the body: it is empty; want either "messages"`},
		"blank":             {" \n", nil, 400, "bad_request", "the body: the JSON breaks off"},
		"broken off":        {"{", nil, 400, "bad_request", "the body: the JSON breaks off"},
		"broken off, later": {`{"channels":["a"`, nil, 400, "bad_request", "the body: the JSON breaks off"},
		"broken off, name":  {`{"channels"`, nil, 400, "bad_request", "the body: the JSON breaks off"},
		"no JSON":           {"channels=a", nil, 400, "bad_request", "the body: invalid character"},
		"a comma too many":  {`{"channels":["a"],"payload":"x",}`, nil, 400, "bad_request", "the body: invalid character"},
		"no comma":          {`{"channels":["a"] "payload":"x"}`, nil, 400, "bad_request", "the body: invalid character"},
		"wrong bracket":     {`{"channels":["a"],"payload":"x"]`, nil, 400, "bad_request", "the body: invalid character"},
		"another case":      {`{"Channels":["a"],"payload":"x"}`, nil, 400, "bad_request", `"Channels"`},
		"twice":             {`{"channels":["a"],"payload":"x","channels":["b"]}`, nil, 400, "bad_request", `"channels" stands there twice`},
		"twice, null":       {`{"channels":["a"],"payload":"x","channels":null}`, nil, 400, "bad_request", `"channels" stands there twice`},
		"a } behind":        {`{"channels":["a"],"payload":"x"}}`, nil, 400, "bad_request", "behind"},
		"a ] behind":        {`{"channels":["a"],"payload":"x"}]`, nil, 400, "bad_request", "behind"},
		"words behind":      {`{"channels":["a"],"payload":"x"} x`, nil, 400, "bad_request", "behind"},
		"no object":         {"[]", nil, 400, "bad_request", "body"},
		"nothing":           {"{}", nil, 400, "bad_request", "messages"},
		"both":              {`{"messages":[],"channels":["a"],"payload":"x"}`, nil, 400, "bad_request", "either"},
		"beside messages":   {`{"messages":[{"channel":"a","payload":"x"}],"event":"e"}`, nil, 400, "bad_request", "beside"},
		"a channel":         {`{"channels":["a"],"channel":"b","payload":"x"}`, nil, 400, "bad_request", "beside"},
		"one as a batch":    {`{"channel":"a","payload":"x"}`, nil, 400, "bad_request", "either"},
		"none":              {`{"messages":[]}`, nil, 400, "bad_request", "1 to 1000"},
		"no channels":       {`{"channels":[],"payload":"x"}`, nil, 400, "bad_request", "1 to 1000"},
		"messages no list":  {`{"messages":{}}`, nil, 400, "bad_request", `"messages"`},
		"channels no texts": {`{"channels":[1],"payload":"x"}`, nil, 400, "bad_request", `"channels`},
		"unknown":           {`{"message":[]}`, nil, 400, "bad_request", "message"},
		"more behind":       {`{"channels":["a"],"payload":"x"} {}`, nil, 400, "bad_request", "behind"},
		"not UTF-8":         {"{\"channels\":[\"a\"],\"payload\":\"\xff\"}", nil, 400, "bad_request", "UTF-8"},
		"header":            {`{"channels":["a"],"payload":"x"}`, []string{"Idempotency-Key", "i"}, 400, "bad_request", "Idempotency-Key: "},
		"body too large":    {`{"channels":["a"],"payload":"` + strings.Repeat("x", 1000) + `"}`, nil, 413, "payload_too_large", "1000 bytes"},
		"together too much": {`{"channels":["a","b","c","d"],"payload":"` + strings.Repeat("x", 300) + `"}`, nil, 413, "payload_too_large", "1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, w.do("POST", "/v1/messages", c.body, c.header...).problem(t, c.status, c.code), c.detail)
		})
	}
	w.do("POST", "/v1/messages?token=x", `{"channels":["a"],"payload":"x"}`).problem(t, 400, "bad_request")
	w.do("GET", "/v1/messages", "").problem(t, 405, "method_not_allowed")
	require.Zero(t, w.log.writes)

	many := newWorld(t, Options{})
	require.Contains(t, many.do("POST", "/v1/messages", `{"messages":[`+list(1001)+`]}`).problem(t, 400, "bad_request"), "1 to 1000")
	require.Zero(t, many.log.writes)
	results := many.many(`{"channels":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 1000), ",") + `],"payload":"x"}`)
	require.Equal(t, uint64(1000), results[999].ID.N)
}

// Each failure of the log has its own answer, with what can be done about it.
// Holds G81.
func TestManyAndTheLogsFailures(t *testing.T) {
	w := newWorld(t, Options{})
	kinds := []error{
		nil, stream.ErrUnknownOutcome, stream.ErrNotAttempted, stream.ErrUnavailable, stream.ErrFull, stream.ErrBroken, stream.ErrEnded, stream.ErrConflict,
	}
	w.log.mu.Lock()
	w.log.onMany = func(_ context.Context, ms []stream.Message) []stream.Result {
		results := make([]stream.Result, len(ms))
		for i, kind := range kinds {
			if results[i].ID = (stream.ID{MS: 1, N: 1}); kind != nil {
				results[i] = stream.Result{Err: &stream.Error{Op: "append", Channel: ms[i].Channel, Kind: kind, Err: fmt.Errorf("dial tcp redis.internal")}}
			}
		}
		return results
	}
	w.log.mu.Unlock()
	var names []string
	for i := range kinds {
		names = append(names, fmt.Sprintf(`"c%d"`, i))
	}
	a := w.do("POST", "/v1/messages", `{"channels":[`+strings.Join(names, ",")+`],"payload":"x"}`)
	require.Equal(t, 200, a.StatusCode)
	require.Equal(t, "1", a.Header.Get("Retry-After"))
	require.NotContains(t, a.body, "redis.internal")
	var answer struct{ Results []result }
	require.NoError(t, json.Unmarshal([]byte(a.body), &answer))
	require.Equal(t, []string{
		"", "unknown_outcome", "not_attempted", "log_unavailable", "log_full", "log_broken", "channel_ended", "idempotency_conflict",
	}, errorCodes(answer.Results))
	var statuses []int
	for _, r := range answer.Results[1:] {
		statuses = append(statuses, r.Error.Status)
	}
	require.Equal(t, []int{504, 424, 503, 507, 500, 409, 422}, statuses)
	require.Contains(t, w.request("GET", w.admin+"/metrics", strings.NewReader("")).body, `rejoin_problems_total{code="not_attempted"} 1`)
}

// A client that leaves while the log is asked does not make an outcome unknown.
func TestBatchOutlivesItsClient(t *testing.T) {
	w := newWorld(t, Options{})
	w.log.mu.Lock()
	w.log.onMany = func(ctx context.Context, ms []stream.Message) []stream.Result {
		if ctx.Done() != nil {
			t.Error("it would end with the client")
		}
		return w.log.Log.AppendAll(ctx, ms)
	}
	w.log.mu.Unlock()
	require.Len(t, w.many(`{"channels":["a"],"payload":"x"}`), 1)
}
