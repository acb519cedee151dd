package logtest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestModelOnPaper(t *testing.T) { Model(t, newPaper) }
