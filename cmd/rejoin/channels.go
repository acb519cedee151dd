package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"rejoin/client"
	"rejoin/stream"
)

// newChannelsCommand is "rejoin channels".
func newChannelsCommand() *cobra.Command {
	l := &listing{}
	cmd := &cobra.Command{
		Use:   "channels [CHANNEL…]",
		Short: "List the channels, or describe some of them",
		Long: `List the channels that have messages or readers, or describe those that are
named: how many messages are kept, the first and the last id, and how many readers
the asked server has. The list is for administrators.

Exit codes: 0 it is printed, 1 the server refused or does not answer, 2 the
command line is wrong.`,
		Example: `  rejoin channels
  rejoin channels --match 'news.**'
  rejoin channels news.uk orders
  rejoin channels --json | jq -r .channel`,
		ValidArgsFunction: l.completeChannels,
		RunE:              l.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&l.match, "match", "", "only those that match this `pattern`: * is one part between dots, ** the rest")
	flags.BoolVar(&l.json, "json", false, "print each channel as one line of JSON")
	flags.DurationVar(&l.timeout, "timeout", 10*time.Second, "how long to try")
	l.remote.add(cmd)
	return cmd
}

// listing is one run of the command.
type listing struct {
	remote
	match   string
	json    bool
	timeout time.Duration
}

func (l *listing) run(cmd *cobra.Command, args []string) error {
	if err := checkChannels(args); err != nil {
		return err
	}
	switch {
	case l.match != "" && len(args) > 0:
		return usage("--match: given beside a channel: want one of them")
	case l.timeout <= 0:
		return usage("--timeout: want more than 0")
	}
	if l.match != "" {
		if _, err := stream.ParsePattern(l.match); err != nil {
			return usage("--match: %v", err)
		}
	}
	c, err := l.open(client.Options{RetryFor: l.timeout})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	lines := json.NewEncoder(cmd.OutOrStdout())
	if len(args) == 0 {
		err = l.list(table, lines, func(yield func(client.ListedChannel) error) error {
			for channel, err := range c.Channels(ctx, l.match) {
				if err == nil {
					err = yield(channel)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	} else {
		err = l.describe(table, lines, args, func(name string) (client.ChannelInfo, error) { return c.Channel(ctx, name) })
	}
	if brokenPipe(err) {
		return nil
	}
	if err != nil {
		return errors.New(plainly(err))
	}
	return nil
}

// list prints the list. What is in it before an error is printed all the same.
func (l *listing) list(table *tabwriter.Writer, lines *json.Encoder, each func(func(client.ListedChannel) error) error) error {
	if l.json {
		return each(func(c client.ListedChannel) error { return lines.Encode(c) })
	}
	n := 0
	err := each(func(c client.ListedChannel) error {
		if n++; n == 1 {
			fmt.Fprintln(table, "CHANNEL\tREADERS")
		}
		_, err := fmt.Fprintf(table, "%s\t%d\n", c.Channel, c.Subscribers)
		return err
	})
	return errors.Join(err, table.Flush())
}

// describe prints what is known of each channel.
func (l *listing) describe(table *tabwriter.Writer, lines *json.Encoder, names []string, info func(string) (client.ChannelInfo, error)) error {
	if !l.json {
		fmt.Fprintln(table, "CHANNEL\tMESSAGES\tFIRST\tLAST\tREADERS")
	}
	for _, name := range names {
		c, err := info(name)
		if err != nil {
			return errors.Join(err, table.Flush())
		}
		if l.json {
			err = lines.Encode(described{c.Channel, idOrNull(c.First), idOrNull(c.Last), c.Length, c.Subscribers})
		} else {
			_, err = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d\n", c.Channel, c.Length, idOrDash(c.First), idOrDash(c.Last), c.Subscribers)
		}
		if err != nil {
			return err
		}
	}
	return table.Flush()
}

// described is a channel's description as the API writes it.
type described struct {
	Channel     string     `json:"channel"`
	First       *stream.ID `json:"first"`
	Last        *stream.ID `json:"last"`
	Length      uint64     `json:"length"`
	Subscribers int        `json:"subscribers"`
}

func idOrNull(id stream.ID) *stream.ID {
	if id.IsZero() {
		return nil
	}
	return &id
}

func idOrDash(id stream.ID) string {
	if id.IsZero() {
		return "-"
	}
	return id.String()
}
