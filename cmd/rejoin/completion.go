package main

import (
	"github.com/spf13/cobra"
)

// newCompletionCommand is "rejoin completion", in place of cobra's own, which
// writes to standard output whatever the command's output is.
func newCompletionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a script that completes this command line in your shell",
		Long: `Write a script that completes commands, flags and, where a server answers, the
names of channels. Source it, or put it where your shell looks for such scripts.`,
		Example: `  source <(rejoin completion bash)
  rejoin completion zsh > "${fpath[1]}/_rejoin"
  rejoin completion fish > ~/.config/fish/completions/rejoin.fish
  rejoin completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			shell := ""
			if len(args) == 1 {
				shell = args[0]
			}
			out, root := cmd.OutOrStdout(), cmd.Root()
			switch shell {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usage("for which shell? bash, zsh, fish or powershell: see %s --help", cmd.CommandPath())
		},
	}
}
