// Package client publishes to Rejoin and reads from it.
//
//	c, err := client.New(client.Options{URL: "http://localhost:8080"})
//	…
//	_, err = c.Publish(ctx, "news", "It rains.", nil)
//	…
//	for event, err := range c.Subscribe(ctx, client.SubscribeOptions{Channels: []string{"news"}}) {
//		if err != nil {
//			return err // for good: what can pass is tried again
//		}
//		switch e := event.(type) {
//		case client.Message:
//			handle(e.Payload)
//		case client.Gap:
//			log.Printf("%d messages are gone", e.Missed)
//		}
//		save(event.Cursor()) // where to go on after a crash
//	}
//
// Servers, connections and the log may come and go meanwhile. A publish is
// tried again with one idempotency key, so it is appended once, and the order of
// a channel is that of the calls. A subscription comes back by its cursor, at
// any server and on any transport, so each message comes once and in order, or
// a gap is told.
//
// # Concurrency
//
// A Client is safe for concurrent use and starts no goroutine. A subscription is
// its loop's alone; as many as you like share a Client, and none ends another.
//
// # Files
//
//	client.go     options, servers and tokens, trying again
//	backoff.go    how long to wait
//	error.go      what a failure means: for good or for now, appended or not
//	publish.go    one message
//	batch.go      many messages
//	gate.go       the order of a channel, and the bound of what is under way
//	subscribe.go  what to read, and one connection after the other
//	event.go      what a subscription yields
//	frame.go      the contract's objects, alike on all transports
//	channels.go   which channels there are, and their end
//	places.go     a cursor of several channels
//	sse.go, poll.go, socket.go  one connection of each transport
package client
