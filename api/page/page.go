// Package page is the page at GET /: publish, read over all three transports,
// cut a line, join again and watch it catch up.
//
// The page is three files without a build step and without anything from
// elsewhere. It uses nothing but the public API of the server it came from, so
// it is also an example of a client: page.js.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

//go:embed index.html page.css page.js
var files embed.FS

// Paths are what [Handler] serves, by GET and HEAD.
var Paths = []string{"/", "/page.css", "/page.js"}

// kinds are the types of the files, not asked of the system: some have others.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// policy lets the page load its own files and talk to its own server, and no
// more (Content Security Policy Level 3). The schemes of WebSocket are named
// because not every browser takes 'self' to include them.
const policy = "default-src 'self'; connect-src 'self' ws: wss:; img-src data:; " +
	"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page's files. A browser asks again each time and is
// answered 304 while its copy is right (RFC 9110, section 13.1.2).
func Handler() http.Handler {
	served := make(map[string]file, len(Paths))
	for _, p := range Paths {
		name := path.Base(p)
		if p == "/" {
			name = "index.html"
		}
		content, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the compiler embedded it
		}
		sum := sha256.Sum256(content)
		served[p] = file{content, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := served[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		head := w.Header()
		head.Set("Content-Type", f.kind)
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-cache")
		head.Set("ETag", f.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	})
}

type file struct {
	content   []byte
	kind, tag string // Content-Type, ETag
}
