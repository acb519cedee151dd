package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"rejoin/api"
	"rejoin/api/access"
	"rejoin/config"
	"rejoin/delivery"
	"rejoin/stream"
)

// newServeCommand is "rejoin serve", and what a bare "rejoin" does.
func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve clients (what rejoin without a command does)",
		Long: `Serve clients: take messages in, deliver them live, and give everyone who comes
back what was missed.

Without any setting it serves this machine on port 8080 and keeps messages in
memory. With redis.url it keeps them in Redis, and any number of servers on the
same Redis are one.

SIGTERM or SIGINT sends the clients away, spread over drain.window, and ends
with exit code 0. A second one ends at once, with 1.`,
		Example: `  rejoin serve
  rejoin serve --redis-url redis://localhost:6379
  rejoin serve --config rejoin.yaml --log-level debug
  REJOIN_REDIS_URL_FILE=/run/secrets/redis rejoin serve --listen :8080 --auth-insecure
  rejoin serve --listen :8443 --tls-cert tls.crt --tls-key tls.key --config keys.yaml`,
		Args: noArgs,
		RunE: serve,
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

// shutdownGrace is how long calls in flight and what is left of the readers get
// once the drain is over.
const shutdownGrace = 5 * time.Second

// serve runs a server until a signal comes, the command's context ends, or it
// fails.
func serve(cmd *cobra.Command, _ []string) error {
	c, rules, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	logger := newLogger(c.Log, cmd.ErrOrStderr())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	limitMemory(logger)
	s, err := newServer(cmd.Context(), c, rules, logger)
	if err != nil {
		return err
	}
	s.announce()
	tidying, stopTidying := context.WithCancel(context.Background())
	defer stopTidying()
	go tidy(tidying)
	select {
	case err := <-s.failed:
		s.close()
		return err
	case <-cmd.Context().Done():
	case got := <-signals:
		logger.Info().Stringer("signal", got).Int("readers", s.broker.Stats().Subscriptions).Stringer("window", c.Drain.Window).
			Msg("stopping: readers are sent away; a second signal ends at once")
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.stop()
		s.close()
	}()
	select {
	case <-stopped:
		logger.Info().Msg("stopped")
		return nil
	case got := <-signals:
		return fmt.Errorf("ended at once by a second signal, %s", got)
	}
}

// server is one running server.
type server struct {
	c      *config.Config
	logger zerolog.Logger
	log    stream.Log
	broker *delivery.Broker
	api    *api.API
	access *access.Checker // nil: everyone may do everything
	cert   *api.Certificate
	files  uint64      // file descriptors this process may have; 0: not known
	ready  atomic.Bool // takes connections: false while starting and draining
	public listener
	admin  listener
	failed chan error // a listener died; has room for both
}

// listener is a socket and what serves it.
type listener struct {
	socket net.Listener
	http   *http.Server // nil until it serves
}

// newServer opens the sockets and the log and begins to serve. On an error
// nothing is left open.
func newServer(ctx context.Context, c *config.Config, r *rules, logger zerolog.Logger) (_ *server, err error) {
	s := &server{c: c, logger: logger, files: raiseFiles(), failed: make(chan error, 2)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.public.socket, err = listen("listen", c.Listen); err != nil {
		return nil, err
	}
	if s.admin.socket, err = listen("admin.listen", c.Admin.Listen); err != nil {
		return nil, err
	}
	if s.access, err = newChecker(c, s.tellOfKeys); err != nil {
		return nil, err
	}
	if s.cert, err = newCertificate(c, s.tellOfKeys); err != nil {
		return nil, err
	}
	metrics := api.NewMetrics()
	if s.log, err = openLog(ctx, c, r, metrics, logger); err != nil {
		return nil, err
	}
	s.broker = delivery.New(s.log, delivery.Options{
		Retention:  r.retention,
		MoveAge:    c.Limits.ConnectionAge,
		MoveWithin: c.Drain.Window,
		Meter:      metrics,
		Log:        s.tellOfLog(),
	})
	s.api = api.New(api.Options{
		Log: s.log, Broker: s.broker, Metrics: metrics, Logger: logger, Ready: s.ready.Load,
		Access:       s.access,
		PayloadLimit: r.payload,
		// Of the largest messages at least two.
		BatchBytes:     max(api.DefaultBatchBytes, 2*int(c.LargestPayload())),
		MaxConnections: s.maxConnections(),
		Rewind:         r.rewind,
		MaxChannels:    c.Limits.ChannelsPerConnection,
		Origins:        c.CORS.Origins,
		RetryMin:       c.Retry.Min,
		RetryMax:       c.Retry.Max,
	})
	s.serve(&s.public, s.api.Public)
	s.serve(&s.admin, s.api.Admin)
	s.ready.Store(true)
	return s, nil
}

// listen opens a socket.
func listen(setting, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: another program has %s: end it, or choose another address", setting, address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return l, nil
}

func (s *server) serve(l *listener, h http.Handler) {
	l.http = api.NewServer(h, int(s.c.Limits.HeaderBytes))
	l.http.ErrorLog = stdlog.New(debugWriter{s.logger}, "", 0)
	serve := func() error { return l.http.Serve(l.socket) }
	if l == &s.public && s.cert != nil {
		l.http.TLSConfig = s.cert.TLS()
		serve = func() error { return l.http.ServeTLS(l.socket, "", "") }
	}
	go func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serving %s: %w", l.socket.Addr(), err)
		}
	}()
}

// debugWriter takes what net/http says of single connections: it is up to
// clients, and of interest only to who looks for it.
type debugWriter struct{ logger zerolog.Logger }

func (w debugWriter) Write(p []byte) (int, error) {
	w.logger.Debug().Msg(strings.TrimSpace(string(p)))
	return len(p), nil
}

// tellOfLog reports how the log comes and goes, a few lines each ten seconds at
// most however often it does.
func (s *server) tellOfLog() func(event string, part int, err error) {
	rare := s.logger.Sample(&zerolog.BurstSampler{Burst: 6, Period: 10 * time.Second})
	return func(event string, part int, err error) {
		rare.Warn().Int("part", part).Err(err).Msg(event)
	}
}

// tellOfKeys reports what became of files and addresses that hold keys.
func (s *server) tellOfKeys(message string, err error) {
	if err != nil {
		s.logger.Warn().Err(err).Msg(message)
		return
	}
	s.logger.Info().Msg(message)
}

// announce says at start what this server is and who may use it.
func (s *server) announce() {
	if s.c.Redis.URL == "" {
		s.logger.Info().Msg("in-memory log: messages are lost when this process ends; set redis.url to keep them")
	} else {
		s.logger.Info().Str("redis", config.MaskURL(s.c.Redis.URL)).Str("prefix", s.c.Redis.Prefix).Msg("log in Redis")
	}
	announceAuth(s.c, s.logger)
	s.logger.Info().Int("readers", s.maxConnections()).Uint64("file_descriptors", s.files).Msg("readers served at a time: limits.connections")
	scheme := "http://"
	if s.cert != nil {
		scheme = "https://"
	}
	s.logger.Info().Str("version", readBuild().Version).
		Str("listen", scheme+s.public.socket.Addr().String()).
		Str("admin", "http://"+s.admin.socket.Addr().String()).Msg("serving")
}

// maxConnections is how many readers are served at a time.
func (s *server) maxConnections() int { return maxConnections(s.c.Limits.Connections, s.files) }

// stop ends the server in order. Clients still reach it until the last reader
// was sent away: whoever comes now is told to go too, and publishing goes on.
func (s *server) stop() {
	s.ready.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), s.c.Drain.Window+shutdownGrace)
	defer cancel()
	if err := s.broker.Drain(ctx, s.c.Drain.Window); err != nil {
		s.logger.Warn().Int("readers", s.broker.Stats().Subscriptions).Msg("some readers did not go: closing them")
	}
	ctx, cancel = context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	for _, l := range []*listener{&s.public, &s.admin} {
		if err := l.http.Shutdown(ctx); err != nil {
			s.logger.Warn().Stringer("address", l.socket.Addr()).Msg("some calls did not end: cutting them off")
		}
	}
}

// close lets go of whatever is open; after stop nothing waits any more.
func (s *server) close() {
	for _, l := range []*listener{&s.public, &s.admin} {
		if l.http != nil {
			_ = l.http.Close()
		} else if l.socket != nil {
			_ = l.socket.Close()
		}
	}
	if s.broker != nil {
		s.broker.Close()
	}
	if s.api != nil {
		s.api.Wait()
	}
	s.access.Close()
	if s.log != nil {
		_ = s.log.Close()
	}
}
