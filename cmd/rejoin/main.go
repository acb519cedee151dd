// Command rejoin is the server and its tools on one command line.
//
// A command has a file: serve.go, config.go, version.go. This one only runs
// them and turns their errors into exit codes: 0 it went well, 1 it failed,
// 2 the command line or a setting is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"rejoin/config"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program but for the exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "rejoin: "+err.Error())
	if _, ok := errors.AsType[*config.Error](err); ok {
		return 2
	}
	return 1
}
