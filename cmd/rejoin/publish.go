package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rejoin/client"
)

// newPublishCommand is "rejoin publish".
func newPublishCommand() *cobra.Command {
	p := &publishing{}
	cmd := &cobra.Command{
		Use:   "publish CHANNEL [PAYLOAD…]",
		Short: "Publish messages: arguments, lines of standard input, or a file",
		Long: `Publish messages on a channel, in order, and print the id of each. Each argument
behind the channel is one message. Without any, each line of standard input is
one, without its line end; with --file all of a file is one.

While the server or its log is away, each message is tried again with the same
idempotency key, so it is published once. What no trying again can mend, such as
a line that is too large, is told and left out.

Exit codes: 0 all is published, 1 something is not, 2 the command line is wrong.`,
		Example: `  rejoin publish news 'It rains.'
  rejoin publish news 'It rains.' 'It pours.' --event weather
  tail -F app.log | rejoin publish logs.app --quiet
  rejoin publish job.17 --file result.json --idempotency-key job-17
  rejoin publish news hi --url https://rejoin.example`,
		Args:              atLeastOneChannel,
		ValidArgsFunction: firstOnly(p.completeChannels),
		RunE:              p.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&p.event, "event", "", "the event `name` that a browser's EventSource dispatches it under")
	flags.StringVar(&p.key, "key", "", "a `text` that says what the message is about, such as a symbol")
	flags.StringVar(&p.file, "file", "", "publish all of the file at this `path` as one message; - is standard input")
	flags.StringVar(&p.idempotencyKey, "idempotency-key", "", "a `text` that makes it safe to repeat the command within minutes; of several messages each gets -1, -2 … behind it")
	flags.DurationVar(&p.timeout, "timeout", 2*time.Minute, "how long to try")
	flags.BoolVar(&p.json, "json", false, `print {"id","channel"} for each message`)
	flags.BoolVarP(&p.quiet, "quiet", "q", false, "print errors only")
	p.remote.add(cmd)
	return cmd
}

// firstOnly completes the first argument alone: what follows is the user's text.
func firstOnly(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, toComplete)
	}
}

// publishing is one run of the command.
type publishing struct {
	remote
	event, key     string
	file           string
	idempotencyKey string
	timeout        time.Duration
	json, quiet    bool

	channel  string
	client   *client.Client
	stdout   io.Writer
	stderr   io.Writer
	progress func(string) // shows a line on a terminal
	unit     string       // "line" or "message", for errors that name one
	several  bool         // there may be more than one message
	begun    time.Time
	sent     int    // messages tried so far
	failed   int    // of them, refused
	told     string // why it does not go on, if that was told
}

func (p *publishing) run(cmd *cobra.Command, args []string) error {
	if err := checkChannels(args[:1]); err != nil {
		return err
	}
	payloads := args[1:]
	switch {
	case p.file != "" && len(payloads) > 0:
		return usage("--file: given beside a payload: want one of them")
	case p.timeout <= 0:
		return usage("--timeout: want more than 0")
	}
	p.channel, p.stdout, p.stderr = args[0], cmd.OutOrStdout(), cmd.ErrOrStderr()
	p.begun, p.unit, p.several = time.Now(), "message", len(payloads) > 1
	var err error
	if p.client, err = p.open(client.Options{RetryFor: p.timeout, OnRetry: p.onRetry}); err != nil {
		return err
	}
	defer p.client.Close()

	switch {
	case p.file != "":
		payload, err := readWhole(p.file, cmd.InOrStdin())
		if err != nil {
			return err
		}
		payloads = []string{payload}
		fallthrough
	case len(payloads) > 0:
		err = p.publishAll(cmd.Context(), payloads)
	default:
		p.unit, p.several = "line", true
		err = p.publishLines(cmd.Context(), cmd.InOrStdin())
	}
	return p.finish(err)
}

// maxInput bounds a line and a file: the largest payload that a server can be
// set to take.
const maxInput = 64 << 20

// readWhole is a file's content.
func readWhole(path string, stdin io.Reader) (string, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = errors.New(path + " is larger than any message can be, 64 MiB")
	}
	return string(b), err
}

// publishLines publishes the lines of standard input: each at once when it comes
// alone, many together when they are there already.
func (p *publishing) publishLines(ctx context.Context, stdin io.Reader) error {
	if terminal(stdin) && !p.quiet {
		fmt.Fprintf(p.stderr, "Each line you type is a message on %s. End with Ctrl-D.\n", p.channel)
	} else if terminal(p.stderr) && (p.quiet || !terminal(p.stdout)) {
		p.progress = newProgress(p.stderr)
	}
	in := newLines(stdin)
	for {
		lines, err := in.next()
		if len(lines) > 0 {
			if err := p.publishAll(ctx, lines); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// publishAll publishes these messages. What is refused for what it is is told
// and left out; any other failure is returned.
func (p *publishing) publishAll(ctx context.Context, payloads []string) error {
	// Only now does an interrupt wait for what is under way.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	messages := make([]client.Publication, len(payloads))
	for i, payload := range payloads {
		messages[i] = client.Publication{Channel: p.channel, Payload: payload, Event: p.event, Key: p.key, IdempotencyKey: p.idempotencyKey}
		if p.idempotencyKey != "" && p.several {
			messages[i].IdempotencyKey += fmt.Sprintf("-%d", p.sent+i+1)
		}
	}
	outcomes := p.publish(ctx, messages)
	for _, o := range outcomes {
		p.sent++
		err := o.Err
		if err == nil {
			err = p.print(o.Published)
		} else {
			p.failed++
			if p.several {
				err = fmt.Errorf("%s %d: %w", p.unit, p.sent, err)
			}
			if refused(err) && p.several {
				p.say("rejoin: %s", plainly(err))
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	if p.progress != nil {
		p.progress(p.summary())
	}
	return nil
}

func (p *publishing) publish(ctx context.Context, messages []client.Publication) []client.Outcome {
	if len(messages) > 1 {
		outcomes, _ := p.client.PublishBatch(ctx, messages)
		return outcomes
	}
	m := messages[0]
	done, err := p.client.Publish(ctx, m.Channel, m.Payload, &client.PublishOptions{Event: m.Event, Key: m.Key, IdempotencyKey: m.IdempotencyKey})
	return []client.Outcome{{Published: done, Err: err}}
}

// refused reports whether a message was refused for what it is, so that another
// may pass.
func refused(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Status == 400 || e.Status == 413 || e.Status == 422)
}

// print writes what a published message is told by.
func (p *publishing) print(done client.Published) error {
	var err error
	switch {
	case p.quiet:
	case p.json:
		err = json.NewEncoder(p.stdout).Encode(struct {
			ID      string `json:"id"`
			Channel string `json:"channel"`
		}{done.ID.String(), p.channel})
	default:
		_, err = fmt.Fprintln(p.stdout, done.ID)
	}
	return err
}

// onRetry tells, once for each reason, why it takes so long.
func (p *publishing) onRetry(err error, _ time.Duration) {
	if reason := plainly(err); reason != p.told && !p.quiet {
		p.say("rejoin: not published yet: %s: trying again", reason)
		p.told = reason
	}
}

// say writes a line to standard error, in place of the progress.
func (p *publishing) say(format string, args ...any) {
	if p.progress != nil {
		p.progress("")
	}
	fmt.Fprintf(p.stderr, format+"\n", args...)
}

func (p *publishing) summary() string {
	took := time.Since(p.begun).Round(time.Millisecond)
	s := fmt.Sprintf("published %d on %s in %v", p.sent-p.failed, p.channel, took)
	if rate := float64(p.sent-p.failed) / max(took.Seconds(), 1e-3); p.sent > 100 {
		s += fmt.Sprintf(", %.0f/s", rate)
	}
	return s
}

// finish says how it went: err is why it stopped before the end.
func (p *publishing) finish(err error) error {
	if brokenPipe(err) {
		return nil
	}
	if p.several && !p.quiet {
		p.say("%s", p.summary())
	} else if p.progress != nil {
		p.progress("")
	}
	if err == nil && p.failed > 0 {
		return fmt.Errorf("%d of %d were refused", p.failed, p.sent)
	}
	if err != nil {
		return errors.New(plainly(err))
	}
	return nil
}

// newProgress shows one line of a terminal, and wipes the one before.
func newProgress(w io.Writer) func(string) {
	shown := time.Time{}
	return func(line string) {
		if line != "" && time.Since(shown) < 200*time.Millisecond {
			return
		}
		shown = time.Now()
		fmt.Fprintf(w, "\r\x1b[K%s", line)
	}
}

// lines reads lines: as many at a time as are there without waiting.
type lines struct {
	in  *bufio.Reader
	err error // after the last line
}

func newLines(in io.Reader) *lines { return &lines{in: bufio.NewReaderSize(in, 256<<10)} }

// maxTogether is how many lines next gives.
const maxTogether = 100

// next waits for a line and returns it, and those that are there already, each
// without its line end. With an error they are the last ones; io.EOF is the end.
func (l *lines) next() (all []string, err error) {
	for l.err == nil && len(all) < maxTogether {
		line, err := l.line()
		if line != nil {
			all = append(all, string(line))
		}
		l.err = err
		if !l.ready() {
			break
		}
	}
	return all, l.err
}

// line is the next line, nil if there is none.
func (l *lines) line() ([]byte, error) {
	line := []byte(nil)
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			line = line[:len(line)-1]
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err // of the last line, if it has no end
		case len(line) > maxInput:
			return nil, errors.New("a line of standard input is larger than any message can be, 64 MiB")
		}
	}
}

// ready reports whether a whole line is in the buffer.
func (l *lines) ready() bool {
	there, _ := l.in.Peek(l.in.Buffered())
	return bytes.IndexByte(there, '\n') >= 0
}
