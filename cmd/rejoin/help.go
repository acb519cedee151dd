package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rejoin/config"
)

// groups are the headings under which a command's flags stand in its help, each
// with the sections of the settings it holds.
var groups = []struct {
	title    string
	sections []string
}{
	{"Listen", []string{"listen", "admin"}},
	{"Keep messages", []string{"redis", "memory", "retention", "channels"}},
	{"Publish and read", []string{"publish", "limits", "cors"}},
	{"Who may", []string{"auth", "tls"}},
	{"Reconnect", []string{"retry", "drain"}},
	{"Log", []string{"log"}},
}

// help writes a command's help to standard output: what it is, how to call it,
// examples, and each flag with its default.
func help(cmd *cobra.Command, _ []string) {
	var b strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", text, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	var names, shorts []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			names, shorts = append(names, sub.Name()), append(shorts, sub.Short)
		}
	}
	table(&b, "Commands", names, shorts)
	if !cmd.HasParent() {
		b.WriteString("\nWithout a command it serves. Each command tells more: rejoin serve --help\n")
	} else {
		writeFlags(&b, cmd)
	}
	fmt.Fprint(cmd.OutOrStdout(), b.String())
}

// writeFlags writes the command's own flags, then the settings by group.
func writeFlags(b *strings.Builder, cmd *cobra.Command) {
	settings := map[string]string{} // flag -> section
	if cmd.Flags().Lookup("redis-url") != nil {
		for _, s := range config.Settings() {
			settings[s.Flag], _, _ = strings.Cut(s.Name, ".")
		}
	}
	own := func(f *pflag.Flag) bool { _, ok := settings[f.Name]; return !ok && !f.Hidden }
	left, right := flagRows(cmd, own)
	table(b, "Flags", left, right)
	if len(settings) == 0 {
		return
	}
	b.WriteString(`
Settings. Each has one name: redis.url in the file is REJOIN_REDIS_URL in the
environment and --redis-url here. Flags win over the environment, the
environment over the file. REJOIN_REDIS_URL_FILE reads the value from a file.
`)
	for _, g := range groups {
		left, right := flagRows(cmd, func(f *pflag.Flag) bool {
			section, ok := settings[f.Name]
			return ok && slices.Contains(g.sections, section)
		})
		table(b, g.title, left, right)
	}
}

// flagRows are the flags to show, what to type on the left.
func flagRows(cmd *cobra.Command, show func(*pflag.Flag) bool) (left, right []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !show(f) {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "    --" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", --" + f.Name
		}
		if kind != "" && f.NoOptDefVal == "" {
			name += " " + kind
		}
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
			usage += " (" + f.DefValue + ")"
		}
		left, right = append(left, name), append(right, usage)
	})
	return left, right
}

// In columns: the left one of flags, so that all tables of a text stand below
// each other, and the whole line.
const (
	flagWidth = 42
	lineWidth = 100
)

// table writes two columns, the right one wrapped.
func table(b *strings.Builder, title string, left, right []string) {
	if len(left) == 0 {
		return
	}
	width := 0
	for _, l := range left {
		width = max(width, len(l))
	}
	if strings.Contains(left[0], "--") {
		width = max(width, flagWidth)
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for i := range left {
		column := left[i]
		for _, line := range wrap(right[i], lineWidth-width-4) {
			fmt.Fprintf(b, "  %-*s  %s\n", width, column, line)
			column = ""
		}
	}
}

// wrap breaks a text at spaces into lines of at most width bytes, if its words
// allow it.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
