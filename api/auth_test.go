package api

import (
	"bufio"
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-chi/chi/v5"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"rejoin/api/access"
	"rejoin/stream"
)

const jwtSecret = "0123456789abcdef0123456789abcdef"

// apiKey is a key for everything that is found wherever it is written.
const apiKey = "apikey-quetzal"

func patterns(texts ...string) (ps []stream.Pattern) {
	for _, text := range texts {
		p, err := stream.ParsePattern(text)
		if err != nil {
			panic(err)
		}
		ps = append(ps, p)
	}
	return ps
}

// token is a JSON Web Token of that age that allows to read the channels.
func token(expires time.Time, read ...string) string {
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"exp": expires.Unix(), "rejoin": map[string]any{"read": read}})
	text, err := t.SignedString([]byte(jwtSecret))
	if err != nil {
		panic(err)
	}
	return text
}

// guardedWorld is a server that asks: the keys reader, writer and admin, JSON
// Web Tokens, and open.** for anybody.
func guardedWorld(t *testing.T, o Options) *world {
	key := func(name string, r access.Rights) access.Key {
		return access.Key{Name: name, SHA256: sha256.Sum256([]byte(name)), Rights: r}
	}
	checker, err := access.New(access.Options{
		Keys: []access.Key{
			key("reader", access.Rights{Read: patterns("news.*")}),
			key("writer", access.Rights{Publish: patterns("news.*", "box")}),
			key("admin", access.Rights{Admin: true}),
			key(apiKey, access.Rights{Read: patterns("**"), Publish: patterns("**"), Admin: true}),
			key("all", access.Rights{Read: patterns("**"), Publish: patterns("**"), Admin: true}),
		},
		JWT:       &access.JWT{Secret: jwtSecret},
		Anonymous: access.Rights{Read: patterns("open.**")},
	})
	require.NoError(t, err)
	t.Cleanup(checker.Close)
	o.Access = checker
	return newWorld(t, o)
}

func bearerOf(token string) []string { return []string{"Authorization", "Bearer " + token} }

// Every route but those listed wants a token: a new one cannot be forgotten.
// Holds G95.
func TestEveryRouteAsks(t *testing.T) {
	w := guardedWorld(t, Options{})
	open := map[string]bool{"/healthz": true, "/readyz": true, "/v1/channels/{channel}/stream": true /* not built: 404 */}
	asked := 0
	require.NoError(t, chi.Walk(w.api.Public.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		path := strings.NewReplacer("{channel}", "a", "{id}", "1-1").Replace(route)
		a := w.do(method, path+"?channel=a", `{"channels":["a"],"payload":"x"}`)
		if open[route] || !strings.HasPrefix(route, "/v1/") {
			require.NotEqual(t, 401, a.StatusCode, "%s %s", method, route)
			return nil
		}
		asked++
		a.problem(t, 401, "unauthorized")
		require.Equal(t, `Bearer realm="rejoin"`, a.Header.Get("WWW-Authenticate"), "%s %s", method, route)
		a = w.do(method, path+"?channel=a", `{"channels":["a"],"payload":"x"}`, bearerOf("wrong")...)
		a.problem(t, 401, "unauthorized")
		require.Equal(t, `Bearer realm="rejoin", error="invalid_token"`, a.Header.Get("WWW-Authenticate"), "%s %s", method, route)
		return nil
	}))
	require.Equal(t, 11, asked)
	require.Zero(t, w.log.writes)
}

// What each kind of token may do, and what not.
// Holds G96.
func TestWhatEachMay(t *testing.T) {
	w := guardedWorld(t, Options{})
	all := bearerOf("all")
	for _, channel := range []string{"news.uk", "newsx", "news.a.b", "open.a", "box"} {
		require.Equal(t, 201, w.do("POST", "/v1/channels/"+channel+"/messages", "x", all...).StatusCode)
	}
	writes := w.log.writes
	id := func(channel string) string {
		page := w.do("GET", "/v1/channels/"+channel+"/messages", "", all...)
		_, rest, _ := strings.Cut(page.body, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	first := id("news.uk")
	for _, c := range []struct {
		who, method, path string
		status            int
	}{
		{"reader", "GET", "/v1/channels/news.uk/messages", 200},
		{"reader", "GET", "/v1/channels/news.uk/messages/" + first, 200},
		{"reader", "GET", "/v1/channels/news.uk", 200},
		{"reader", "GET", "/v1/channels/open.a/messages", 200},
		{"reader", "GET", "/v1/poll?channel=news.uk", 200},
		{"reader", "GET", "/v1/channels/newsx/messages", 403},
		{"reader", "GET", "/v1/channels/news.a.b/messages", 403},
		{"reader", "GET", "/v1/channels/news.a.b/messages/1-1", 403},
		{"reader", "GET", "/v1/channels/news.a.b", 403},
		{"reader", "GET", "/v1/channels/news%2Euk/messages", 200},
		{"reader", "GET", "/v1/channels/news%2Ea.b/messages", 403},
		{"reader", "GET", "/v1/sse?channel=newsx", 403},
		{"reader", "GET", "/v1/sse?channel=news.uk&channel=news.a.b&format=json", 403},
		{"reader", "GET", "/v1/poll?channel=news.a.b", 403},
		{"reader", "GET", "/v1/ws?channel=newsx", 403},
		{"reader", "POST", "/v1/channels/news.uk/messages", 403},
		{"reader", "POST", "/v1/channels/news.uk/end", 403},
		{"reader", "POST", "/v1/messages", 403},
		{"reader", "DELETE", "/v1/channels/news.uk", 403},
		{"reader", "GET", "/v1/channels", 403},
		{"writer", "GET", "/v1/channels/news.uk/messages", 403},
		{"writer", "GET", "/v1/sse?channel=news.uk", 403},
		{"writer", "POST", "/v1/channels/newsx/messages", 403},
		{"writer", "POST", "/v1/channels/news.a.b/messages", 403},
		{"writer", "POST", "/v1/channels/open.a/messages", 403},
		{"writer", "POST", "/v1/channels/newsx/end", 403},
		{"writer", "DELETE", "/v1/channels/news.uk", 403},
		{"admin", "GET", "/v1/channels/news.uk/messages", 403},
		{"admin", "POST", "/v1/channels/news.uk/messages", 403},
		{"admin", "GET", "/v1/channels", 200},
		{"", "GET", "/v1/channels/open.a/messages", 200},
		{"", "GET", "/v1/channels/open.a.b.c", 200},
		{"", "GET", "/v1/poll?channel=open.a", 200},
		{"", "GET", "/v1/channels/openx/messages", 401},
		{"", "GET", "/v1/sse?channel=open.a&channel=news.uk&format=json", 401},
		{"", "POST", "/v1/channels/open.a/messages", 401},
		{"", "DELETE", "/v1/channels/open.a", 401},
		// Of a token that is not good nothing is taken, not even what anybody may.
		{"wrong", "GET", "/v1/channels/open.a/messages", 401},
		{token(time.Now().Add(-time.Second), "**"), "GET", "/v1/channels/open.a/messages", 401},
		{strings.Repeat("x", access.MaxToken+1), "GET", "/v1/channels/open.a/messages", 401},
		{token(time.Now().Add(time.Hour), "news.*"), "GET", "/v1/channels/news.uk/messages", 200},
		{token(time.Now().Add(time.Hour), "news.*"), "GET", "/v1/channels/newsx/messages", 403},
		{token(time.Now().Add(time.Hour), "news.*"), "POST", "/v1/channels/news.uk/messages", 403},
	} {
		var header []string
		if c.who != "" {
			header = bearerOf(c.who)
		}
		a := w.do(c.method, c.path, "x", header...)
		name := c.who[:min(len(c.who), 20)] + " " + c.method + " " + c.path
		require.Equal(t, c.status, a.StatusCode, "%s: %s", name, a.body)
		switch c.status {
		case 403:
			a.problem(t, 403, "forbidden")
			require.Equal(t, `Bearer realm="rejoin", error="insufficient_scope"`, a.Header.Get("WWW-Authenticate"), name)
		case 401:
			a.problem(t, 401, "unauthorized")
		}
	}
	require.Equal(t, writes, w.log.writes, "nothing was appended")
	require.Equal(t, first, id("news.uk"), "nothing was deleted")

	require.Equal(t, 201, w.do("POST", "/v1/channels/news.uk/messages", "x", bearerOf("writer")...).StatusCode)
	require.Equal(t, 201, w.do("POST", "/v1/channels/box/end", "", bearerOf("writer")...).StatusCode)
	require.Equal(t, 204, w.do("DELETE", "/v1/channels/news.uk", "", bearerOf("admin")...).StatusCode)
}

// Of many messages each is judged by itself.
// Holds G96.
func TestManyByTheirChannels(t *testing.T) {
	w := guardedWorld(t, Options{})
	a := w.do("POST", "/v1/messages", `{"messages":[{"channel":"newsx","payload":"a"},{"channel":"news.uk","payload":"b"},{"channel":"open.a","payload":"c"}]}`, bearerOf("writer")...)
	require.Equal(t, 200, a.StatusCode, a.body)
	require.Equal(t, 1, w.log.writes)
	require.Equal(t, 2, strings.Count(a.body, `"code":"forbidden"`), a.body)
	require.Contains(t, a.body, `"channel":"news.uk"`)
	require.Contains(t, w.do("GET", "/v1/channels/news.uk/messages", "", bearerOf("reader")...).body, `"payload":"b"`)
}

// A token in the query is for reading alone.
// Holds G97.
func TestTokenInTheQuery(t *testing.T) {
	w := guardedWorld(t, Options{})
	for _, path := range []string{"/v1/channels/news.uk/messages?", "/v1/channels/news.uk?", "/v1/poll?channel=news.uk&"} {
		require.Equal(t, 200, w.do("GET", path+"token=reader", "").StatusCode, path)
		require.Equal(t, 200, w.do("GET", path+"token=wrong&token=reader", "").StatusCode, "the last one counts")
		require.Equal(t, 200, w.do("GET", path+"token=wrong", "", bearerOf("reader")...).StatusCode, "the header wins")
		require.Equal(t, 200, w.do("GET", path+"token=reader", "", "Cookie", tokenCookie+"=wrong").StatusCode, "the query wins over the cookie")
		w.do("GET", path+"token=wrong", "").problem(t, 401, "unauthorized")
		w.do("GET", path+"token=", "").problem(t, 401, "unauthorized")
		w.do("GET", path+"token=writer", "").problem(t, 403, "forbidden")
	}
	for _, c := range [][2]string{
		{"POST", "/v1/channels/news.uk/messages"}, {"POST", "/v1/channels/news.uk/end"}, {"POST", "/v1/messages"},
		{"DELETE", "/v1/channels/news.uk"}, {"GET", "/v1/channels"},
	} {
		for _, header := range [][]string{nil, bearerOf("all")} {
			a := w.do(c[0], c[1]+"?token=all", `{"channels":["news.uk"],"payload":"x"}`, header...)
			require.Contains(t, a.problem(t, 400, "bad_request"), "token: ")
		}
		// Nor does a cookie count.
		w.do(c[0], c[1], "x", "Cookie", tokenCookie+"=all", "Sec-Fetch-Site", "same-origin").problem(t, 401, "unauthorized")
	}
	require.Zero(t, w.log.writes)
}

func TestAuthorizationHeader(t *testing.T) {
	w := guardedWorld(t, Options{})
	const path = "/v1/channels/open.a/messages"
	for _, good := range []string{"Bearer reader", "bearer reader", "BEARER  reader "} {
		require.Equal(t, 200, w.do("GET", path, "", "Authorization", good).StatusCode, good)
	}
	for _, bad := range []string{"reader", "Basic cmVhZGVyOg==", "Bearer", "Bearer ", "Bearerreader"} {
		a := w.do("GET", path, "", "Authorization", bad)
		require.Contains(t, a.problem(t, 401, "unauthorized"), "Authorization: ")
		require.Equal(t, `Bearer realm="rejoin", error="invalid_request"`, a.Header.Get("WWW-Authenticate"))
	}
	w.do("GET", path, "", "Authorization", "Bearer reader", "Authorization", "Bearer reader").problem(t, 401, "unauthorized")

	everyone := newWorld(t, Options{})
	require.Equal(t, 200, everyone.do("GET", path, "", "Authorization", "Basic whatever").StatusCode, "a server that asks nobody does not look")
	require.Equal(t, 200, everyone.do("GET", path+"?token=x", "").StatusCode)
}

// A cookie counts from pages of this origin and of those that are named, on every
// transport.
// Holds G98.
func TestCookies(t *testing.T) {
	w := guardedWorld(t, Options{Origins: []string{"https://friend.example"}})
	own := "http://" + strings.TrimPrefix(w.url, "http://")
	for name, c := range map[string]struct {
		header []string
		counts bool
	}{
		"no browser":                    {nil, true},
		"its own page":                  {[]string{"Origin", own}, true},
		"its own page, modern":          {[]string{"Sec-Fetch-Site", "same-origin"}, true},
		"behind a proxy that hides it":  {[]string{"Origin", "https://public.example", "Sec-Fetch-Site", "same-origin"}, true},
		"typed in":                      {[]string{"Sec-Fetch-Site", "none"}, true},
		"a page that is named":          {[]string{"Origin", "https://friend.example", "Sec-Fetch-Site", "cross-site"}, true},
		"a page of another site":        {[]string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, false},
		"the same, old":                 {[]string{"Origin", "https://evil.example"}, false},
		"another port":                  {[]string{"Origin", "http://127.0.0.1:1"}, false},
		"another scheme, modern":        {[]string{"Origin", strings.Replace(own, "http", "https", 1), "Sec-Fetch-Site", "cross-site"}, false},
		"a neighbour":                   {[]string{"Origin", "https://x.friend.example", "Sec-Fetch-Site", "same-site"}, false},
		"an element of another page":    {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, false},
		"nobody's page":                 {[]string{"Origin", "null"}, false},
		"a name that begins like it":    {[]string{"Origin", "https://friend.example.evil.example"}, false},
		"a link on another site":        {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, false},
		"in upper case it is not named": {[]string{"Origin", "HTTPS://FRIEND.EXAMPLE"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			header := append([]string{"Cookie", "a=b; " + tokenCookie + "=reader"}, c.header...)
			want := 401
			if c.counts {
				want = 200
			}
			require.Equal(t, want, w.do("GET", "/v1/channels/news.uk/messages", "", header...).StatusCode, "history")
			require.Equal(t, want, w.do("GET", "/v1/poll?channel=news.uk", "", header...).StatusCode, "poll")
			require.Equal(t, 200, w.do("GET", "/v1/poll?channel=open.a", "", header...).StatusCode, "what anybody may")
			require.Equal(t, 401, w.do("GET", "/v1/poll?channel=news.uk&callback=f", "", header...).StatusCode, "never by JSONP")
			resp, _ := w.events("channel=news.uk", header...)
			require.Equal(t, want, resp.StatusCode, "SSE")
			_ = resp.Body.Close()
			conn, resp, err := w.socket("channel=news.uk", header...)
			require.Equal(t, c.counts, err == nil, "WebSocket: %v", err)
			if err == nil {
				_ = conn.CloseNow()
			} else {
				require.Contains(t, []int{401, 403}, resp.StatusCode)
			}
		})
	}
}

// With cors.origins "*" every page may use the API, and none with a cookie.
// Holds G98.
func TestCookiesWithEveryOrigin(t *testing.T) {
	w := guardedWorld(t, Options{Origins: []string{"*"}})
	header := []string{"Cookie", tokenCookie + "=reader", "Origin", "https://any.example"}
	require.Equal(t, 401, w.do("GET", "/v1/poll?channel=news.uk", "", header...).StatusCode)
	require.Equal(t, 200, w.do("GET", "/v1/poll?channel=news.uk&token=reader", "", header...).StatusCode)
	_, resp, err := w.socket("channel=news.uk", header...)
	require.Error(t, err)
	require.Equal(t, 401, resp.StatusCode)
	c, _, err := w.socket("channel=news.uk&token=reader", header...)
	require.NoError(t, err)
	_ = c.CloseNow()
}

// Without a cookie, too, a page of an origin that is not allowed opens no
// WebSocket: no CORS would keep it from reading.
// Holds G98.
func TestWebSocketOrigin(t *testing.T) {
	w := guardedWorld(t, Options{Origins: []string{"https://friend.example"}})
	_, resp, err := w.socket("channel=open.a", "Origin", "https://evil.example")
	require.Error(t, err)
	require.Equal(t, 403, resp.StatusCode)
	for _, origin := range []string{"https://friend.example", w.url} {
		c, _, err := w.socket("channel=open.a", "Origin", origin)
		require.NoError(t, err)
		_ = c.CloseNow()
	}
}

// soon is a moment that a token can name, a little ahead.
func soon() time.Time { return time.Now().Truncate(time.Second).Add(2 * time.Second) }

// An event stream is told that its token ran out, then it is cut off, on
// HTTP/1.1, where a pump writes it, and on HTTP/2.
// Holds G101.
func TestExpiryOnSSE(t *testing.T) {
	w := guardedWorld(t, Options{})
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2": {Protocols: h2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer transport.CloseIdleConnections()
			at := soon()
			r, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/sse?channel=news.uk&token="+token(at, "news.*"), nil)
			require.NoError(t, err)
			resp, err := (&http.Client{Transport: transport}).Do(r)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, name[:6], resp.Proto[:6])
			require.Equal(t, 200, resp.StatusCode)
			in := bufio.NewScanner(resp.Body)
			until(t, in, "event: rejoin.ready")
			until(t, in, "event: rejoin.expired")
			require.Equal(t, "{}", until(t, in, "data: "))
			late := time.Since(at)
			require.True(t, late >= 0 && late < 2*time.Second, "%v after its time", late)
			for in.Scan() {
				require.Empty(t, in.Text())
			}
			require.Error(t, in.Err(), "no clean end")
		})
	}
}

// A poll that is held is answered when its token runs out; the next one is
// refused.
// Holds G101.
func TestExpiryOnPoll(t *testing.T) {
	w := guardedWorld(t, Options{})
	at := soon()
	text := token(at, "news.*")
	first := w.do("GET", "/v1/poll?channel=news.uk&token="+text, "")
	require.Equal(t, 200, first.StatusCode)
	cursor := first.Header.Get("Last-Event-ID")
	held := w.do("GET", "/v1/poll?channel=news.uk&lastEventId="+cursor+"&timeout=30s&token="+text, "")
	late := time.Since(at)
	require.Equal(t, 200, held.StatusCode)
	require.Contains(t, held.body, `"messages":[]`)
	require.Equal(t, cursor, held.Header.Get("Last-Event-ID"))
	require.True(t, late >= 0 && late < 2*time.Second, "%v after its time", late)
	require.Contains(t, w.do("GET", "/v1/poll?channel=news.uk&token="+text, "").problem(t, 401, "unauthorized"), "expired")
	inBody := w.do("GET", "/v1/poll?channel=news.uk&status=body&token="+text, "")
	require.Equal(t, 200, inBody.StatusCode)
	require.Contains(t, inBody.body, `"code":"unauthorized"`)
	require.Contains(t, inBody.body, `"status":401}`)
}

// A WebSocket begins without a token, gets one, gets a newer one before that runs
// out, and is closed when nothing new comes.
// Holds G101.
func TestTokensOnWebSocket(t *testing.T) {
	w := guardedWorld(t, Options{})
	c, _, err := w.socket("")
	require.NoError(t, err)
	defer c.CloseNow()
	say := func(text string) {
		require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(text)))
	}
	frame(t, c, "ready")
	say(`{"type":"subscribe","channel":"news.uk","ref":1}`)
	refused := frame(t, c, "error")
	require.Equal(t, "unauthorized", refused["code"])
	say(`{"type":"auth","token":"wrong","ref":2}`)
	require.Equal(t, "unauthorized", frame(t, c, "error")["code"])

	first := soon()
	say(`{"type":"auth","token":"` + token(first, "news.*") + `","ref":3}`)
	require.EqualValues(t, 3, frame(t, c, "auth")["ref"])
	say(`{"type":"subscribe","channel":"news.uk","ref":4}`)
	frame(t, c, "subscribed")
	say(`{"type":"subscribe","channel":"newsx","ref":5}`)
	require.Equal(t, "forbidden", frame(t, c, "error")["code"])

	second := first.Add(time.Second)
	say(`{"type":"auth","token":"` + token(second, "news.*", "chat") + `"}`)
	frame(t, c, "auth")
	frame(t, c, "expired")
	late := time.Since(second)
	require.True(t, late >= 0 && late < 2*time.Second, "%v after the newer one's time", late)
	_, _, err = c.Read(t.Context())
	require.Equal(t, websocket.StatusCode(4001), websocket.CloseStatus(err))
}

// A new token that does not cover what is read closes the WebSocket.
// Holds G101.
func TestLesserTokenOnWebSocket(t *testing.T) {
	w := guardedWorld(t, Options{})
	c, _, err := w.socket("channel=news.uk", bearerOf("reader")...)
	require.NoError(t, err)
	defer c.CloseNow()
	frame(t, c, "ready")
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"auth","token":"writer"}`)))
	require.Equal(t, "forbidden", frame(t, c, "error")["code"])
	_, _, err = c.Read(t.Context())
	require.Equal(t, websocket.StatusCode(4003), websocket.CloseStatus(err))
}

// Health stays open, and the operators' listener asks nobody.
// Holds G95.
func TestWhatStaysOpen(t *testing.T) {
	w := guardedWorld(t, Options{})
	for _, url := range []string{w.url + "/healthz", w.url + "/readyz", w.url + "/readyz?log=1", w.admin + "/readyz", w.admin + "/metrics"} {
		require.Equal(t, 200, w.request("GET", url, nil).StatusCode, url)
	}
	require.Equal(t, 404, w.do("GET", "/metrics", "").StatusCode)
}

// While tokens cannot be verified they are neither taken nor refused.
// Holds G100.
func TestKeysUnavailable(t *testing.T) {
	checker, err := access.New(access.Options{JWT: &access.JWT{JWKSURL: "http://127.0.0.1:1/"}, Anonymous: access.Rights{Read: patterns("open")}})
	require.NoError(t, err)
	t.Cleanup(checker.Close)
	w := newWorld(t, Options{Access: checker})
	text := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{})
	text.Header["alg"] = "ES256"
	unsigned, err := text.SigningString()
	require.NoError(t, err)
	a := w.do("GET", "/v1/channels/a/messages", "", bearerOf(unsigned+".AAAA")...)
	a.problem(t, 503, "keys_unavailable")
	require.Equal(t, "1", a.Header.Get("Retry-After"))
	require.Equal(t, 200, w.do("GET", "/v1/channels/open/messages", "").StatusCode)
}

// Whatever a request is and however its token comes, the debug log has neither
// it nor a payload. (This log leaves nothing out.)
// Holds G78.
func TestNoSecretIsLogged(t *testing.T) {
	w := guardedWorld(t, Options{Origins: []string{"https://friend.example"}})
	w.http.Timeout = 20 * time.Second
	const payload = "payload-capybara"
	good, expired := token(time.Now().Add(time.Hour), "**"), token(time.Now().Add(-time.Hour), "**")
	routes, requests := 0, 0
	require.NoError(t, chi.Walk(w.api.Public.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes++
		path := strings.NewReplacer("{channel}", "open.a", "{id}", "1-1").Replace(route)
		for _, text := range []string{apiKey, good, expired, good + "x", good + ";x", good + "%zz", strings.Repeat("quetzal", 3000)} {
			for _, c := range []struct {
				query  string
				header []string
			}{
				{"?channel=nothere%20&x=" + payload, bearerOf(text)},
				{"?channel=nothere%20&key=" + payload + "&token=" + text, nil},
				{"?lastEventId=" + payload, []string{"Cookie", tokenCookie + "=" + text, "Idempotency-Key", payload, "Last-Event-ID", payload}},
			} {
				w.do(method, path+c.query, `{"channels":["open.a"],"payload":"`+payload+`"}`, c.header...)
				requests++
			}
		}
		return nil
	}))
	require.Greater(t, routes, 14)
	require.Equal(t, 201, w.do("POST", "/v1/channels/open.b/messages", payload, bearerOf(apiKey)...).StatusCode)
	requests++
	for _, text := range []string{apiKey, good} {
		resp, in := w.events("channel=open.b&lastEventId=earliest&token=" + text)
		until(t, in, "data: ")
		_ = resp.Body.Close()
		c, _, err := w.socket("channel=open.b&token=" + text)
		require.NoError(t, err)
		require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"auth","token":"`+expired+`","ref":7}`)))
		require.EqualValues(t, 7, frame(t, c, "error")["ref"])
		_ = c.CloseNow()
		requests += 2
	}
	var log string
	require.Eventually(t, func() bool {
		log = w.logged.String()
		return strings.Count(log, `"message":"request"`) >= requests
	}, 10*time.Second, time.Millisecond, "every request is in the log")
	for _, secret := range append(strings.Split(good+"."+expired, "."), jwtSecret, "quetzal", "capybara", "token=", "Bearer") {
		require.NotContains(t, log, secret)
	}
}
