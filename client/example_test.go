package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"rejoin/client"
	"rejoin/stream/memlog"
)

// exampleServer stands for the server that a program talks to.
func exampleServer() (url string, stop func()) {
	messages := memlog.New(memlog.Options{})
	s, err := startServer(messages)
	if err != nil {
		log.Fatal(err)
	}
	return s.url(), func() {
		s.kill()
		_ = messages.Close()
	}
}

// Publish a message, and read what a channel has.
func Example() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, text := range []string{"It rains.", "It pours."} {
		if _, err := c.Publish(ctx, "weather", text, nil); err != nil {
			log.Fatal(err)
		}
	}

	n := 0
	for event, err := range c.Subscribe(ctx, client.SubscribeOptions{Channels: []string{"weather"}, After: client.Earliest}) {
		if err != nil {
			log.Fatal(err)
		}
		if m, ok := event.(client.Message); ok {
			fmt.Println(m.Channel, m.Payload)
			if n++; n == 2 {
				break
			}
		}
	}
	// Output:
	// weather It rains.
	// weather It pours.
}

// Make a publish safe to repeat, even by another process, with a key of one's
// own.
func ExampleClient_Publish() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(client.Options{URL: url, RetryFor: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for range 2 {
		done, err := c.Publish(context.Background(), "orders", `{"order":17}`, &client.PublishOptions{
			Event: "created", IdempotencyKey: "order-17",
		})
		if failed, ok := errors.AsType[*client.PublishError](err); ok {
			log.Fatal("in the log: ", map[bool]string{true: "perhaps", false: "no"}[failed.Unknown], ": ", failed.Err)
		}
		fmt.Println("message", done.ID.N, "replayed", done.Replayed)
	}
	// Output:
	// message 1 replayed false
	// message 1 replayed true
}

func ExampleClient_PublishBatch() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	outcomes, err := c.PublishBatch(context.Background(), []client.Publication{
		{Channel: "a", Payload: "one"},
		{Channel: "b", Payload: "two"},
		{Channel: "not a name", Payload: "three"},
	})
	for _, o := range outcomes {
		fmt.Println(o.Channel, o.ID.N, o.Err == nil)
	}
	if said, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(said.Status, said.Code)
	}
	// Output:
	// a 1 true
	// b 1 true
	// not a name 0 false
	// 400 bad_request
}

// Keep the cursor, and go on from it after a crash: nothing is missed and
// nothing comes twice. What can no longer be had is told as a gap.
func ExampleClient_Subscribe() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range 4 {
		if _, err := c.Publish(ctx, "news", fmt.Sprint("message ", i+1), nil); err != nil {
			log.Fatal(err)
		}
	}

	cursor := client.Earliest // as it was saved
	for run := range 2 {
		handled := 0
		for event, err := range c.Subscribe(ctx, client.SubscribeOptions{
			Channels:  []string{"news"},
			Transport: []client.Transport{client.SSE, client.WebSocket}[run],
			After:     cursor,
		}) {
			if err != nil {
				log.Fatal(err) // refused for good
			}
			switch e := event.(type) {
			case client.Message:
				fmt.Println(e.Payload)
				handled++
			case client.Gap:
				fmt.Println("missed for good:", e.Missed)
			case client.Disconnected:
				log.Println("not connected, next try in", e.Wait, e.Err)
			}
			cursor = event.Cursor() // save it together with what was done
			if handled == 2 {
				break // a crash
			}
		}
		fmt.Println("run", run+1, "ends")
	}
	// Output:
	// message 1
	// message 2
	// run 1 ends
	// message 3
	// message 4
	// run 2 ends
}

// Follow a job to its end.
func ExampleClient_End() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	if _, err := c.Publish(ctx, "job.17", "half done", nil); err != nil {
		log.Fatal(err)
	}
	if _, err := c.End(ctx, "job.17"); err != nil {
		log.Fatal(err)
	}

	for event, err := range c.Subscribe(ctx, client.SubscribeOptions{Channels: []string{"job.17"}, After: client.Earliest}) {
		if err != nil {
			log.Fatal(err)
		}
		switch e := event.(type) {
		case client.Message:
			fmt.Println(e.Payload)
		case client.End:
			fmt.Println("that was all")
		}
	}
	// Output:
	// half done
	// that was all
}
