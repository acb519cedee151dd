package page_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rejoin/api/page"
)

func get(method, path string, head ...string) *http.Response {
	r := httptest.NewRequest(method, path, http.NoBody)
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(b)
}

var kinds = map[string]string{
	"/":         "text/html; charset=utf-8",
	"/page.css": "text/css; charset=utf-8",
	"/page.js":  "text/javascript; charset=utf-8",
}

func TestHeaders(t *testing.T) {
	require.Len(t, page.Paths, len(kinds))
	tags := map[string]bool{}
	for _, path := range page.Paths {
		res := get("GET", path)
		require.Equal(t, 200, res.StatusCode, path)
		require.Equal(t, kinds[path], res.Header.Get("Content-Type"), path)
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", res.Header.Get("Referrer-Policy"))
		require.Equal(t, "no-cache", res.Header.Get("Cache-Control"))
		require.NotEmpty(t, body(t, res))

		tag := res.Header.Get("ETag")
		require.Regexp(t, `^"[0-9a-f]{16}"$`, tag)
		tags[tag] = true
		again := get("GET", path, "If-None-Match", tag)
		require.Equal(t, 304, again.StatusCode)
		require.Empty(t, body(t, again))
		require.Equal(t, 200, get("GET", path, "If-None-Match", `"another"`).StatusCode)

		asked := get("HEAD", path)
		require.Equal(t, 200, asked.StatusCode)
		require.Empty(t, body(t, asked))
	}
	require.Len(t, tags, len(page.Paths), "each file has a tag of its own")
	require.Equal(t, 404, get("GET", "/page.go").StatusCode)
	require.Equal(t, 404, get("GET", "/index.html").StatusCode)
}

func TestPolicy(t *testing.T) {
	rules := map[string]string{}
	for rule := range strings.SplitSeq(get("GET", "/").Header.Get("Content-Security-Policy"), ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(rule), " ")
		rules[name] = value
	}
	require.Equal(t, map[string]string{
		"default-src":     "'self'",
		"connect-src":     "'self' ws: wss:",
		"img-src":         "data:",
		"object-src":      "'none'",
		"base-uri":        "'none'",
		"form-action":     "'none'",
		"frame-ancestors": "'none'",
	}, rules)
}

// forbidden is what the policy would stop, or what would load from elsewhere.
var forbidden = regexp.MustCompile(`(?i)\son[a-z]+\s*=\s*["']|\sstyle\s*=|<style|<script>|javascript:|` +
	`(?:src|href)\s*=\s*["'](?:https?:)?//|@import|(?-i:url\()|\beval\(|innerHTML|new Function`)

func TestNothingThePolicyForbids(t *testing.T) {
	for _, path := range page.Paths {
		require.Empty(t, forbidden.FindString(body(t, get("GET", path))), path)
	}
	for _, bad := range []string{
		`<a onclick="x()">`, `<p style="color:red">`, `<script>x()</script>`, `<a href='javascript:x()'>`,
		`<script src="https://example.org/x.js">`, `<link href="//example.org/x.css">`, `e.innerHTML = text`,
		`@import "x.css"`, `background: url(x.png)`, `eval("1")`,
	} {
		require.True(t, forbidden.MatchString(bad), bad)
	}
}

// What the HTML names is served.
func TestFilesOfThePage(t *testing.T) {
	html := body(t, get("GET", "/"))
	for _, m := range regexp.MustCompile(`(?:src|href)="([^":]+)"`).FindAllStringSubmatch(html, -1) {
		require.Contains(t, page.Paths, "/"+m[1])
	}
	// Every element that the script looks up by its id is there.
	script := body(t, get("GET", "/page.js"))
	names := regexp.MustCompile(`\$\('([a-z]+)'\)`).FindAllStringSubmatch(script, -1)
	require.NotEmpty(t, names)
	for _, m := range names {
		require.Contains(t, html, `id="`+m[1]+`"`)
	}
}
