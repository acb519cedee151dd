package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"rejoin/config"
)

func TestLoggerFormats(t *testing.T) {
	for format, want := range map[string]string{
		"auto":    `^\{"level":"warn","a":1,"time":"\S+Z","message":"hello"\}\n$`,
		"json":    `^\{"level":"warn","a":1,"time":"\S+Z","message":"hello"\}\n$`,
		"console": `^\d\d:\d\d:\d\d\.\d{3} WRN hello a=1\n$`,
	} {
		var out bytes.Buffer
		logger := newLogger(config.Log{Level: "warn", Format: format}, &out)
		logger.Info().Msg("not at this level")
		logger.Warn().Int("a", 1).Msg("hello")
		assert.Regexp(t, strings.ReplaceAll(want, "Z", `(Z|[+-]\d\d:\d\d)`), out.String(), format)
	}
}

// Holds G63.
func TestLogLinesAreBoundedForEachLevel(t *testing.T) {
	var out bytes.Buffer
	logger := newLogger(config.Log{Level: "info", Format: "json"}, &out)
	for range 100_000 {
		logger.Warn().Msg("again")
	}
	logger.Error().Msg("still heard")
	// The loop may last for some seconds on a slow machine.
	assert.Less(t, strings.Count(out.String(), "again"), 100_000/20)
	assert.Contains(t, out.String(), "still heard")
}
