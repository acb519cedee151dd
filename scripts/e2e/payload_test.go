//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// payloads are those that break what is careless.
var payloads = []string{
	"", "plain", " leading and trailing ", ":colon", "data: like a field", "id: 9-9\nevent: x",
	"line\nfeed", "line\nfeed\n", "\n", "\n\n", "carriage\rreturn", "carriage return\r", "both\r\nof them", "\r\n", "\n\r",
	"tab\tand null\x00inside", "separator\u2028line\u2029paragraph", "\ufeffbyte order mark",
	"\U0001F600 four bytes \U00010348", "quote \" backslash \\ </script>", strings.Repeat("long ", 20_000),
}

// Whatever text is published comes out equal at the other end: as the whole
// message exactly, as the bare payload with CR and CRLF as LF, by the parsers of
// curl's reader and of Chromium.
// Holds G9, G39.
func TestPayloadsComeOutEqual(t *testing.T) {
	const channel = "payloads"
	s := serve(t, plain, "--cors-origins", "*")
	for _, text := range payloads {
		res, err := web.Post(s.url+"/v1/channels/"+channel+"/messages?event=tick", "application/octet-stream", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusCreated {
			t.Fatalf("publishing %.40q was answered %s", text, res.Status)
		}
	}
	raw := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	for _, c := range []struct {
		format string
		decode func(data string) string
		want   func(payload string) string
	}{
		{"json", payloadOf, func(payload string) string { return payload }},
		{"raw", func(data string) string { return data }, func(payload string) string { return raw.Replace(payload) }},
	} {
		url := s.url + "/v1/sse?channel=" + channel + "&lastEventId=earliest&format=" + c.format
		for name, read := range map[string]func(*testing.T, string, int) []string{"our parser": fromStream, "Chromium": fromChromium} {
			got := read(t, url, len(payloads))
			for i, text := range payloads {
				if i >= len(got) {
					t.Fatalf("%s, %s: %d messages, want %d", name, c.format, len(got), len(payloads))
				}
				if have, want := c.decode(got[i]), c.want(text); have != want {
					t.Errorf("%s, %s: %.60q came out as %.60q", name, c.format, text, have)
				}
			}
		}
	}

	res, err := web.Get(s.url + "/v1/channels/" + channel + "/messages")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var page struct {
		Messages []struct{ Payload, Event string }
	}
	if err := json.NewDecoder(res.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range page.Messages {
		got = append(got, m.Payload)
	}
	if !slices.Equal(got, payloads) {
		t.Errorf("history: %.1000q", got)
	}
}

// payloadOf is the payload of a message in JSON.
func payloadOf(data string) string {
	var m struct{ Payload *string }
	if err := json.NewDecoder(bytes.NewReader([]byte(data))).Decode(&m); err != nil || m.Payload == nil {
		return "not a message: " + data
	}
	return *m.Payload
}

// fromStream reads n messages with the parser of these tests.
func fromStream(t *testing.T, url string, n int) (got []string) {
	t.Helper()
	res, err := streams.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	late := time.AfterFunc(patience, func() { _ = res.Body.Close() })
	defer late.Stop()
	for e := range events(res.Body) {
		if e.name == "tick" {
			got = append(got, e.data)
		}
		if len(got) == n {
			break
		}
	}
	return got
}

// fromChromium reads n messages with the browser's parser.
func fromChromium(t *testing.T, url string, n int) (got []string) {
	t.Helper()
	came := make(chan string, n)
	chromium(t, url, func(e event) {
		if e.name == "tick" {
			came <- e.data
		}
	})
	late := time.After(patience)
	for len(got) < n {
		select {
		case data := <-came:
			got = append(got, data)
		case <-late:
			return got
		}
	}
	return got
}
