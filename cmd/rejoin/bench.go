package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"rejoin/cmd/rejoin/bench"
)

// newBenchCommand is "rejoin bench" with its subcommands.
func newBenchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Load a server and check what each client got",
		Long: `Opens subscribers, publishes numbered messages on a steady schedule, and checks
at each client that every acknowledged message came, once, in order, or that its
loss was told. Exits with 1 when that was not so.`,
		Example: `  rejoin bench --subscribers 6000 --rate 100 --pid server=$(pidof rejoin)
  rejoin bench --subscribers 1000 --life 1s --duration 20s
  rejoin bench --transport ws --channels 1000 --channels-per-connection 20 --rate 1000
  rejoin bench --metrics-url http://127.0.0.1:8081 --report run.svg
  rejoin bench --compare-floor --pid server=$(pidof rejoin)`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return untilInterrupt(cmd, f.runServer)
		},
	}
	f.add(cmd)
	cmd.Flags().StringSliceVar(&f.opts.URLs, "url", f.opts.URLs, "the server; again for more on one log: subscribers then change the server at each reconnect")
	cmd.Flags().StringArrayVar(&f.pids, "pid", nil, "name=PID of a process whose CPU and memory is measured, the server's first; again for more")
	cmd.Flags().StringVar(&f.metrics, "metrics-url", "", "the server's admin listener, as in http://127.0.0.1:8081: CPU and memory from there, in place of --pid")
	cmd.Flags().BoolVar(&f.compare, "compare-floor", false, "run the floor first, then the server, and print both and their ratio (needs --pid or --metrics-url)")

	cmd.AddCommand(newBenchFloorCommand(), &cobra.Command{
		Use:           floorServerCommand,
		Short:         "The bare write loop that bench floor starts",
		Hidden:        true,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			return bench.ServeFloor(os.Stdin, os.Stdout)
		},
	})
	return cmd
}

func newBenchFloorCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "floor",
		Short: "The same load on a bare write loop, to compare with",
		Long: `Starts a process that only writes each published message to each subscriber's
socket, one write(2) each, and puts the same load on it: what a delivery and a
connection cost at the least on this machine.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return untilInterrupt(cmd, f.runFloor)
		},
	}
	f.add(cmd)
	return cmd
}

const floorServerCommand = "floor-server"

// benchFlags are the flags of one bench command.
type benchFlags struct {
	opts    bench.Options
	pids    []string
	json    bool
	compare bool
	metrics string
	report  string
}

// add gives cmd the flags that server and floor share.
func (f *benchFlags) add(cmd *cobra.Command) {
	f.opts = bench.DefaultOptions()
	o, flags := &f.opts, cmd.Flags()
	flags.StringVar(&o.Transport, "transport", o.Transport, "sse, ws or longpoll")
	flags.IntVar(&o.Subscribers, "subscribers", o.Subscribers, "connections that read")
	flags.IntVar(&o.Channels, "channels", o.Channels, "channels the subscribers are spread over")
	flags.IntVar(&o.ChannelsPerConnection, "channels-per-connection", o.ChannelsPerConnection, "channels that each connection reads")
	flags.Float64Var(&o.Rate, "rate", o.Rate, "messages a second, all channels together")
	flags.IntVar(&o.Size, "size", o.Size, "payload bytes")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "how long to publish")
	flags.DurationVar(&o.Life, "life", o.Life, "each connection closes after so long and resumes; 0: never")
	flags.IntVar(&o.Slow, "slow", o.Slow, "extra connections that never read")
	flags.IntVar(&o.Publishers, "publishers", o.Publishers, "connections that publish, at most one for each channel")
	flags.Float64Var(&o.ConnectRate, "connect-rate", o.ConnectRate, "connections opened, and at the end closed, a second")
	flags.StringVar(&o.Prefix, "prefix", o.Prefix, "channels are named <prefix>.<number>")
	flags.DurationVar(&o.Settle, "settle", o.Settle, "pause before the first message, for memory to come to rest")
	flags.StringVar(&f.report, "report", "", "draw rate and latency over time into this SVG file")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
}

// untilInterrupt runs a bench until it is over or interrupted: the first
// interrupt ends the publishing, the second the program.
func untilInterrupt(cmd *cobra.Command, run func(context.Context, io.Writer) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, cmd.OutOrStdout())
}

func (f *benchFlags) runServer(ctx context.Context, w io.Writer) error {
	for _, s := range f.pids {
		p, err := bench.ParseProcess(s)
		if err != nil {
			return err
		}
		f.opts.Processes = append(f.opts.Processes, p)
	}
	if f.metrics != "" {
		p, err := bench.ParseMetricsURL(f.metrics)
		if err != nil {
			return err
		}
		f.opts.Processes = append([]bench.Process{p}, f.opts.Processes...)
	}
	f.opts.Progress = progressLine(os.Stderr)
	if !f.compare {
		r, err := bench.Run(ctx, f.opts)
		if err != nil {
			return err
		}
		return f.show(w, r, errors.Join(r.Err(), f.draw(r)))
	}
	if len(f.opts.Processes) == 0 {
		return errors.New("--compare-floor compares CPU and memory: say whose with --pid server=PID or --metrics-url URL")
	}
	floor, err := f.floor(ctx)
	if err != nil {
		return err
	}
	server, err := bench.Run(ctx, f.opts)
	if err != nil {
		return err
	}
	return f.show(w, bench.Compare(floor, server), errors.Join(floor.Err(), server.Err(), f.draw(server, floor)))
}

func (f *benchFlags) runFloor(ctx context.Context, w io.Writer) error {
	f.opts.Progress = progressLine(os.Stderr)
	r, err := f.floor(ctx)
	if err != nil {
		return err
	}
	return f.show(w, r, errors.Join(r.Err(), f.draw(r)))
}

func (f *benchFlags) floor(ctx context.Context) (*bench.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start the floor: %w", err)
	}
	return bench.RunFloor(ctx, f.opts, []string{self, "bench", floorServerCommand})
}

// draw writes the report that was asked for.
func (f *benchFlags) draw(results ...*bench.Result) error {
	if f.report == "" {
		return nil
	}
	var b bytes.Buffer
	if err := bench.WriteReport(&b, results...); err != nil {
		return err
	}
	if err := os.WriteFile(f.report, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// show prints a result and returns fault, or why it could not print.
func (f *benchFlags) show(w io.Writer, r interface{ WriteTable(io.Writer) error }, fault error) error {
	if !f.json {
		return errors.Join(r.WriteTable(w), fault)
	}
	return errors.Join(json.NewEncoder(w).Encode(r), fault)
}

// progressLine shows a run on one line of a terminal, and nothing elsewhere.
func progressLine(f *os.File) bench.Progress {
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	width := 0
	return func(s bench.Status) {
		line := ""
		if !s.Done {
			line = fmt.Sprintf("%6.1fs  %-10s  connected %d/%d  published %d  delivered %.0f/s  lag %.1f ms",
				s.Elapsed.Seconds(), s.Phase, s.Connected, s.Subscribers, s.Published, s.PerSecond, float64(s.Lag)/1e6)
		}
		fmt.Fprintf(f, "\r%s%s\r", line, strings.Repeat(" ", max(0, width-len([]rune(line)))))
		width = len([]rune(line))
	}
}
