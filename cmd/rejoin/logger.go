package main

import (
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"rejoin/config"
)

// linesPerSecond is the most log lines of one level in a second; more are left
// out. What repeats, like a Redis that is away, tells changes and not attempts,
// so this bounds only what nobody thought of.
const linesPerSecond = 50

func init() { zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" }

// newLogger writes to w, which is standard error: for people on a terminal,
// else one JSON object a line.
func newLogger(c config.Log, w io.Writer) zerolog.Logger {
	f, ok := w.(*os.File)
	terminal := ok && isatty.IsTerminal(f.Fd())
	if c.Format == "console" || c.Format == "auto" && terminal {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !terminal || os.Getenv("NO_COLOR") != ""}
	}
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel // config allows known words only
	}
	limit := func() zerolog.Sampler {
		return &zerolog.BurstSampler{Burst: linesPerSecond, Period: time.Second}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger().Sample(zerolog.LevelSampler{
		DebugSampler: limit(), InfoSampler: limit(), WarnSampler: limit(), ErrorSampler: limit(),
	})
}
