package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	site "rejoin/api/page"
)

func TestPageIsServed(t *testing.T) {
	w := newWorld(t, Options{})
	for _, path := range site.Paths {
		a := w.do("GET", path, "")
		require.Equal(t, 200, a.StatusCode, path)
		require.Contains(t, a.Header.Get("Content-Security-Policy"), "default-src 'self'", path)
		require.Equal(t, 200, w.do("HEAD", path, "").StatusCode, path)
		w.do("POST", path, "").problem(t, 405, "method_not_allowed")
	}
}
