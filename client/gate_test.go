package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// entrants enter one after the other, each in a goroutine of its own, and notes
// who got through.
type entrants struct {
	t    *testing.T
	g    *gate
	mu   sync.Mutex // guards the following
	in   map[string]*pass
	errs map[string]error
}

func (e *entrants) enter(ctx context.Context, name string, bytes int, channels ...string) {
	go func() {
		p, err := e.g.enter(ctx, bytes, channels...)
		e.mu.Lock()
		defer e.mu.Unlock()
		if err != nil {
			e.errs[name] = err
			return
		}
		e.in[name] = p
	}()
	synctest.Wait()
}

func (e *entrants) leave(name string) {
	e.mu.Lock()
	p := e.in[name]
	delete(e.in, name)
	e.mu.Unlock()
	e.g.leave(p)
	synctest.Wait()
}

func (e *entrants) want(names ...string) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	var in []string
	for name := range e.in {
		in = append(in, name)
	}
	assert.ElementsMatch(e.t, names, in)
}

func newEntrants(t *testing.T, most int) *entrants {
	return &entrants{t: t, g: newGate(most), in: map[string]*pass{}, errs: map[string]error{}}
}

func TestGateKeepsTheOrderOfAChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEntrants(t, 100)
		e.enter(t.Context(), "a1", 1, "a")
		e.enter(t.Context(), "a2", 1, "a")
		e.enter(t.Context(), "b1", 1, "b")
		e.enter(t.Context(), "ab", 1, "a", "b")
		e.enter(t.Context(), "b2", 1, "b")
		e.want("a1", "b1")
		e.leave("b1")
		e.want("a1") // ab waits for a2, and b2 for ab
		e.leave("a1")
		e.want("a2")
		e.leave("a2")
		e.want("ab")
		e.leave("ab")
		e.want("b2")
		e.leave("b2")
		assert.Empty(t, e.g.lines)
		assert.Equal(t, 100, e.g.free)
	})
}

func TestGateWhoLeavesTheLineHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEntrants(t, 100)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e.enter(t.Context(), "first", 1, "a")
		e.enter(short, "impatient", 1, "a")
		e.enter(t.Context(), "last", 1, "a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, e.errs["impatient"], context.DeadlineExceeded)
		assert.NotErrorIs(t, e.errs["impatient"], ErrBufferFull)
		e.want("first")
		e.leave("first")
		e.want("last")
		e.leave("last")
		assert.Empty(t, e.g.lines)
		assert.Equal(t, 100, e.g.free)
	})
}

func TestGateBoundsTheBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEntrants(t, 100)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e.enter(t.Context(), "a", 60, "a")
		e.enter(short, "b", 60, "b")
		e.enter(t.Context(), "c", 40, "c") // fits, but b was first
		e.enter(t.Context(), "huge", 101, "d")
		require.ErrorIs(t, e.errs["huge"], ErrBufferFull)
		e.want("a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, e.errs["b"], ErrBufferFull)
		require.True(t, errors.Is(e.errs["b"], context.DeadlineExceeded))
		e.want("a", "c")
		e.enter(t.Context(), "d", 1, "d")
		e.want("a", "c")
		e.leave("c")
		e.want("a", "d")
		e.leave("a")
		e.leave("d")
		assert.Equal(t, 100, e.g.free)
	})
}
