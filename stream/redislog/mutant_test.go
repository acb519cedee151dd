package redislog_test

import (
	"testing"

	"rejoin/stream/logtest"
	"rejoin/stream/redislog"
)

func TestMutants(t *testing.T) {
	logtest.Mutants(t, newStores(t), redislog.Script(), nil)
}
