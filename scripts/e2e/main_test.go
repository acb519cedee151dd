//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// binaries is where the programs are built.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rejoin-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// plain and raced are the paths of the program, built on first use.
var (
	plain = sync.OnceValues(func() (string, error) { return build("rejoin") })
	raced = sync.OnceValues(func() (string, error) { return build("rejoin-race", "-race") })
)

func build(name string, flags ...string) (string, error) {
	path := filepath.Join(binaries, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), "./cmd/rejoin")...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return path, nil
}
