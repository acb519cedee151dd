package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCgroupFiles(t *testing.T) {
	for name, c := range map[string]struct{ list, first string }{
		"version 2": {"0::/user.slice/x\n", "/sys/fs/cgroup/user.slice/x/memory.max"},
		"version 1": {"5:cpu:/a\n4:memory:/b\n", "/sys/fs/cgroup/memory/b/memory.limit_in_bytes"},
		"none":      {"", "/sys/fs/cgroup/memory.max"},
	} {
		path := filepath.Join(t.TempDir(), "cgroup")
		require.NoError(t, os.WriteFile(path, []byte(c.list), 0o600))
		assert.Equal(t, c.first, cgroupFiles(path)[0], name)
	}
	assert.Empty(t, cgroupFiles(filepath.Join(t.TempDir(), "absent")))
}

var ballast []byte

// What was garbage is seen as memory that could be given back, and is given.
func TestHeapSeesWhatIsUnused(t *testing.T) {
	debug.FreeOSMemory()
	_, before := heap()
	ballast = make([]byte, 64<<20)
	ballast = nil
	_, after := heap()
	assert.Greater(t, after, before+32<<20)
	debug.FreeOSMemory()
	_, freed := heap()
	assert.Less(t, freed, after/2)
}
