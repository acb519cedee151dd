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
  rejoin subscribe news
  rejoin publish news hello

Stop the second one with Ctrl-C, publish more, and start it again with the --from
that it names: it goes on behind what it printed.

For completion in your shell see rejoin completion --help.`

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
	root.CompletionOptions.DisableDefaultCmd = true // there is one of ours
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpFunc(help)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return config.FlagError(cmd.Flags(), err)
	})
	config.AddFlags(root.Flags())
	root.AddCommand(newServeCommand(), newPublishCommand(), newSubscribeCommand(), newChannelsCommand(),
		newBenchCommand(), newConfigCommand(), newVersionCommand(), newCompletionCommand())
	return root
}

// unknownCommand refuses what stands where a command should.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	problem := fmt.Sprintf("unknown command %q: see rejoin --help", args[0])
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
