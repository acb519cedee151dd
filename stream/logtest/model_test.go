package logtest

import "testing"

func TestModelOnPaper(t *testing.T) { Model(t, newPaper) }
