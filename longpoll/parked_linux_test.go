package longpoll

import (
	"net"
	"net/http/httptest"
	"net/url"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/stream/memlog"
)

// BenchmarkParked says what a parked poll costs the server: memory in use for
// the heap and the stacks, by polls on connections of their own. The clients are
// bare sockets, which cost this process nothing else.
func BenchmarkParked(b *testing.B) {
	const polls = 5000
	for b.Loop() {
		w := newSilentWorld(nil, Options{}, memlog.Options{})
		srv := httptest.NewServer(w)
		u, err := url.Parse(srv.URL)
		require.NoError(b, err)
		addr, err := net.ResolveTCPAddr("tcp4", u.Host)
		require.NoError(b, err)
		request := []byte("GET /v1/poll?channel=news&timeout=60s&lastEventId=1-0 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: parked\r\n\r\n")

		before := inUse()
		var fds []int
		for range polls {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
			require.NoError(b, err)
			fds = append(fds, fd)
			require.NoError(b, syscall.Connect(fd, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}))
			_, err = syscall.Write(fd, request)
			require.NoError(b, err)
		}
		for w.broker.Stats().Subscriptions < polls {
			time.Sleep(10 * time.Millisecond)
		}
		b.ReportMetric((inUse()-before)/polls/1024, "KB/poll")
		for _, fd := range fds {
			require.NoError(b, syscall.Close(fd))
		}
		w.broker.Close()
		srv.Close()
		require.NoError(b, w.log.Close())
	}
}

func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}
