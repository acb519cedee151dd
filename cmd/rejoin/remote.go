package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"rejoin/client"
	"rejoin/config"
	"rejoin/stream"
)

// Where commands that talk to a server find it, beside their flags.
const (
	urlEnv   = "REJOIN_URL"
	tokenEnv = "REJOIN_TOKEN"
)

// remote is the server that a command talks to.
type remote struct {
	urls  []string
	token string
}

// add gives cmd the flags. The token's default is never shown: it is a secret.
func (r *remote) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&r.urls, "url", nil, "the `server`; again for more on one log, which are tried in turn ($REJOIN_URL, or "+client.DefaultURL+")")
	flags.StringVar(&r.token, "token", "", "API `key` or JWT; better in $REJOIN_TOKEN, where no list of processes shows it")
}

// open makes the client. The error is one of the command line.
func (r *remote) open(o client.Options) (*client.Client, error) {
	o.URLs, o.Token = r.urls, r.token
	if len(o.URLs) == 0 {
		for url := range strings.FieldsFuncSeq(os.Getenv(urlEnv), func(c rune) bool { return c == ',' || c == ' ' }) {
			o.URLs = append(o.URLs, url)
		}
	}
	if o.Token == "" {
		o.Token = os.Getenv(tokenEnv)
	}
	c, err := client.New(o)
	if err != nil {
		return nil, usage("%s", strings.TrimPrefix(err.Error(), "client: "))
	}
	return c, nil
}

// usage is an error of the command line: exit code 2.
func usage(format string, args ...any) error {
	return &config.Error{Problem: fmt.Sprintf(format, args...)}
}

// checkChannels refuses what is no channel's name.
func checkChannels(names []string) error {
	for _, name := range names {
		if err := stream.CheckChannel(name); err != nil {
			return usage("%q: %s", name, strings.TrimPrefix(err.Error(), "stream: "))
		}
	}
	return nil
}

// atLeastOneChannel refuses a command without arguments.
func atLeastOneChannel(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("which channel? See %s --help", cmd.CommandPath())
	}
	return nil
}

// completeChannels completes the names of channels, as far as the server tells
// them at once.
func (r *remote) completeChannels(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	c, err := r.open(client.Options{Timeout: time.Second, RetryFor: time.Second})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	var names []string
	for channel, err := range c.Channels(cmd.Context(), "") {
		if err != nil || len(names) == 1000 {
			break
		}
		if strings.HasPrefix(channel.Channel, toComplete) {
			names = append(names, channel.Channel)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// terminal reports whether a person sees, or types, this.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// colours reports whether to write them: on a terminal, unless NO_COLOR is set
// (no-color.org) or it cannot show them.
func colours(w io.Writer) bool {
	return terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// plainly is an error without what a person at a command line does not need:
// which package says it.
func plainly(err error) string {
	return strings.ReplaceAll(err.Error(), "client: ", "")
}

// brokenPipe reports whether err says that nobody reads what is written.
func brokenPipe(err error) bool { return errors.Is(err, errBrokenPipe) }
