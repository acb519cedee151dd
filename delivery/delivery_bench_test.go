//go:build linux

package delivery

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"rejoin/stream/memlog"
)

// BenchmarkNext is a message on its way through the log and a tail to one reader
// that waits for it.
func BenchmarkNext(b *testing.B) {
	l := memlog.New(memlog.Options{})
	defer l.Close()
	broker := New(l, Options{})
	defer broker.Close()
	s := broker.Subscribe([]Channel{{Name: "a"}})
	defer s.Close()
	payload := strings.Repeat("x", 500)
	await := func(kind Kind) {
		for {
			batch := s.Next(outletBytes)
			for i := range batch.Items {
				if batch.Items[i].Kind == kind {
					return
				}
			}
			if !batch.More {
				<-s.Wake()
			}
		}
	}
	await(Ready)
	b.ReportAllocs()
	for b.Loop() {
		publish(b, l, "a", payload)
		await(Message)
	}
}

// BenchmarkNothing is a look that finds nothing.
func BenchmarkNothing(b *testing.B) {
	l := memlog.New(memlog.Options{})
	defer l.Close()
	broker := New(l, Options{})
	defer broker.Close()
	s := broker.Subscribe([]Channel{{Name: "a"}})
	defer s.Close()
	<-s.Wake()
	for s.Next(outletBytes).More {
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Next(outletBytes)
	}
}

// BenchmarkPumpPass is a message written by the pumps to 100 sockets, all of
// which have read it before the next comes.
func BenchmarkPumpPass(b *testing.B) {
	const readers = 100
	l := memlog.New(memlog.Options{})
	defer l.Close()
	broker := New(l, Options{})
	defer broker.Close()
	addr := pumpServer(b, broker, 0, OutletOptions{Heartbeat: time.Minute, Stuck: 10 * time.Second})
	var wg sync.WaitGroup
	defer wg.Wait()
	lines := make(chan int, readers)
	for range readers {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintln(c, "live")
		wg.Go(func() {
			buf := make([]byte, 4<<10)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				lines <- bytes.Count(buf[:n], []byte("\n"))
			}
		})
	}
	pass := func() {
		for n := 0; n < readers; n += <-lines {
		}
	}
	pass() // ready
	payload := strings.Repeat("x", 500)
	b.ReportAllocs()
	for b.Loop() {
		publish(b, l, "a", payload)
		pass()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/readers, "ns/delivery")
}
