package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rejoin/client"
	"rejoin/stream"
)

// newSubscribeCommand is "rejoin subscribe".
func newSubscribeCommand() *cobra.Command {
	s := &subscribing{}
	cmd := &cobra.Command{
		Use:   "subscribe CHANNEL…",
		Short: "Follow channels and print each message, with nothing missed",
		Long: `Follow one channel or several and print the payload of each message on a line,
until Ctrl-C, or until the channels have ended. Servers may restart meanwhile: it
comes back by itself and goes on where it was, each message once. What can no
longer be had is told on standard error, as are other changes.

--from says where to start:

  (not given)           with what is published from now on
  earliest              with everything retained
  -5                    with the newest 5 messages of each channel
  10m                   with those of the last 10 minutes
  2026-01-31T12:00:00Z  with those since then
  1764530000123-42      behind this message
  1~…                   behind this cursor, of several channels

When it is interrupted, it says which --from goes on from there. In a pipe it
prints payloads and nothing else; with --json each message is one line of JSON,
whatever its payload, with the cursor behind it.

Exit codes: 0 it was stopped, has its --count, or the channels have ended;
1 the server refused it; 2 the command line is wrong.`,
		Example: `  rejoin subscribe news
  rejoin subscribe news weather --from -5
  rejoin subscribe news --from 1764530000123-42 --count 1
  rejoin subscribe logs.app --from 10m | grep ERROR
  rejoin subscribe job.17 --from earliest --json | jq -r .payload`,
		Args:              atLeastOneChannel,
		ValidArgsFunction: s.completeChannels,
		RunE:              s.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&s.from, "from", "", "the `place` to start, as above")
	flags.IntVarP(&s.count, "count", "n", 0, "stop after this `number` of messages")
	flags.BoolVar(&s.json, "json", false, "print each message as one line of JSON")
	flags.StringVar(&s.transport, "transport", "sse", "the `way` to read: sse, longpoll or ws")
	flags.BoolVarP(&s.quiet, "quiet", "q", false, "tell nothing but gaps and errors on standard error")
	s.remote.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions([]string{"sse", "longpoll", "ws"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"earliest", "10m", "-5"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// subscribing is one run of the command.
type subscribing struct {
	remote
	from, transport string
	count           int
	json, quiet     bool
}

func (s *subscribing) run(cmd *cobra.Command, args []string) error {
	if err := checkChannels(args); err != nil {
		return err
	}
	o := client.SubscribeOptions{Channels: args}
	if err := parseFrom(s.from, &o); err != nil {
		return err
	}
	switch s.transport {
	case "sse":
	case "longpoll":
		o.Transport = client.LongPoll
	case "ws":
		o.Transport = client.WebSocket
	default:
		return usage("--transport: %q: want sse, longpoll or ws", s.transport)
	}
	if s.count < 0 {
		return usage("--count: want 1 or more")
	}
	c, err := s.open(client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()

	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), s, len(args) > 1)
	err = s.follow(ctx, c, o, p)
	switch {
	case brokenPipe(err):
		return nil // whoever read it has had enough
	case err != nil:
		return errors.New(plainly(err))
	case ctx.Err() != nil:
		p.interrupted()
	}
	return nil
}

func (s *subscribing) follow(ctx context.Context, c *client.Client, o client.SubscribeOptions, p *printer) error {
	messages := 0
	for event, err := range c.Subscribe(ctx, o) {
		if err != nil {
			return err
		}
		if err := p.print(event); err != nil {
			return err
		}
		if _, ok := event.(client.Message); ok {
			if messages++; messages == s.count {
				return nil
			}
		}
	}
	return nil
}

// parseFrom reads --from into o. Its error is one of the command line.
func parseFrom(text string, o *client.SubscribeOptions) error {
	if text == "" {
		return nil
	}
	if n, ok := strings.CutPrefix(text, "-"); ok {
		count, err := strconv.Atoi(n)
		if err != nil || count < 1 {
			return usage("--from: %q: the newest so many messages are written -5, say", text)
		}
		o.Rewind = count
		return nil
	}
	if cursor, err := stream.ParseCursor(text); err == nil {
		if len(o.Channels) > 1 && cursor.Bare() {
			return usage("--from: the id of one channel says nothing about several: want the whole cursor, 1~…, as --json prints it")
		}
		o.After = text
		return nil
	}
	if ms, err := strconv.ParseUint(text, 10, 47); err == nil {
		o.Since = time.UnixMilli(int64(ms))
		return nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		o.Since = t
		return nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		o.SinceAgo = d
		return nil
	}
	return usage("--from: %q: want earliest, -5, 10m, a time such as 2026-01-31T12:00:00Z, an id, or a cursor", text)
}

// describe says in a few words what is missed.
func describe(g client.Gap) string {
	switch {
	case g.Reason == client.Reset:
		return "messages may be missing here: the log was lost or is another one; what comes next may have come before"
	case g.Missed == 1:
		return "1 message is missing here: it is no longer kept"
	}
	return fmt.Sprintf("%d messages are missing here: they are no longer kept", g.Missed)
}
