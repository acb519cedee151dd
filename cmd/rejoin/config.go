package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"rejoin/config"
)

// newConfigCommand is "rejoin config".
func newConfigCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in effect and where each came from",
		Long: `Show the settings that rejoin serve would run with, as YAML that can be used
as a file. Behind each value that is not the default stands where it came from.
Passwords are masked. What rules of channels leave out is filled in.`,
		Example: `  rejoin config > rejoin.yaml                 # a file to start from
  rejoin config --config rejoin.yaml          # what is in effect, and why
  rejoin config --config rejoin.yaml --check  # only check, for a deploy script
  REJOIN_RETENTION_MAX_AGE=1h rejoin config   # the environment counts too`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if check {
				if err := checkFiles(c); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "The settings are good.")
				return nil
			}
			return c.WriteYAML(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only check the settings; exit code 2 if one is bad")
	config.AddFlags(cmd.Flags())
	return cmd
}

// loadConfig reads the settings of a command and checks also what config cannot
// know: the words of our other packages.
func loadConfig(cmd *cobra.Command) (*config.Config, *rules, error) {
	c, err := config.Load(cmd.Flags(), os.Environ())
	if err != nil {
		return nil, nil, err
	}
	if err := checkRedisURL(c); err != nil {
		return nil, nil, err
	}
	if _, err := accessOptions(c); err != nil {
		return nil, nil, err
	}
	r, err := newRules(c)
	return c, r, err
}
