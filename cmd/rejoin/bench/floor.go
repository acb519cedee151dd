package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// RunFloor runs the load against a child process that is the floor: command
// starts one that calls [ServeFloor] with its standard streams. The options are
// those of a run on a server; URLs and Processes are the child's.
func RunFloor(ctx context.Context, o Options, command []string) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Life != 0 {
		return nil, errors.New("the floor has no log, so nobody can resume there: leave --life out")
	}
	if o.Transport == "longpoll" || o.ChannelsPerConnection > 1 {
		return nil, errors.New("the floor is streams of one channel: --transport sse or ws, --channels-per-connection 1")
	}
	child := exec.Command(command[0], command[1:]...)
	stdin, err := child.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var complaint strings.Builder
	child.Stderr = &complaint
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("start the floor: %w", err)
	}
	defer func() {
		_ = stdin.Close() // tells the child to end; if that fails it is killed
		killer := time.AfterFunc(5*time.Second, func() { _ = child.Process.Kill() })
		_ = child.Wait() // its exit code adds nothing
		killer.Stop()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = child.Wait() // for its complaint to be whole
		return nil, fmt.Errorf("the floor did not start: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	o.URLs = []string{strings.TrimSpace(line)}
	o.Processes = []Process{{Name: "floor", PID: child.Process.Pid}}
	return Run(ctx, o)
}

// ServeFloor is the floor: it says its URL on out in one line and serves until
// in ends. It accepts subscribers, of SSE or WebSocket, and, for each publish,
// writes the ready frame to each of the channel's sockets with one write(2) each, in one loop: no log,
// no resume, no heartbeat. A reader that takes nothing for a second is dropped.
func ServeFloor(in io.Reader, out io.Writer) error { return serveFloor(in, out) }
