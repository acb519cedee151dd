package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rejoin/config"
)

const rootLong = `Rejoin delivers messages to browsers and programs that come and go. Whoever
comes back gets what was missed, or is told exactly what is gone.

Try it, with three terminals and nothing else:

  rejoin
  curl -N 'http://localhost:8080/v1/sse?channel=news'
  curl -d 'hello' http://localhost:8080/v1/channels/news/messages

Stop the second one, publish more, and read on from the last id it printed:

  curl -N -H 'Last-Event-ID: 1764530000123-1' 'http://localhost:8080/v1/sse?channel=news'`

// notBuilt are commands that are planned and refused until they do something.
var notBuilt = []string{"publish", "subscribe", "channels"}

// newRoot is the command line. Without a command it serves, so root and serve
// take the same flags.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "rejoin [command]",
		Short:         "Messages for clients that come and go, with nothing missed",
		Long:          rootLong,
		Version:       readBuild().Version,
		SilenceErrors: true, // run prints them, on one line
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          serve,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpFunc(help)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return config.FlagError(cmd.Flags(), err)
	})
	config.AddFlags(root.Flags())
	root.AddCommand(newServeCommand(), newBenchCommand(), newConfigCommand(), newVersionCommand())
	return root
}

// unknownCommand refuses what stands where a command should.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	problem := fmt.Sprintf("unknown command %q: see rejoin --help", args[0])
	for _, name := range notBuilt {
		if args[0] == name {
			problem = name + " is not built yet"
		}
	}
	root.SuggestionsMinimumDistance = 2
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		problem = fmt.Sprintf("unknown command %q: did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return &config.Error{Problem: problem}
}

// noArgs refuses arguments where a command takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &config.Error{Problem: fmt.Sprintf("%q is one argument too many: see %s --help", args[0], cmd.CommandPath())}
}
