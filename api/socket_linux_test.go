package api

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The socket under a request gives up a silent peer after two heartbeats.
// Holds G46.
func TestDetectDeath(t *testing.T) {
	got := make(chan [2]int, 1)
	srv := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		detectDeath(r.Context(), 15*time.Second)
		raw, err := r.Context().Value(connKey{}).(*net.TCPConn).SyscallConn()
		assert.NoError(t, err)
		var timeout, idle int
		assert.NoError(t, raw.Control(func(fd uintptr) {
			timeout, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			idle, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		}))
		got <- [2]int{timeout, idle}
	}))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, [2]int{15_000, 15}, <-got) // a heartbeat unanswered for another

	detectDeath(context.Background(), time.Second) // no connection: nothing to do
	one, two := net.Pipe()
	detectDeath(context.WithValue(context.Background(), connKey{}, one), time.Second) // not TCP
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
}
