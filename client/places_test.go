package client

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// The cursor of several channels is the text that servers write.
func TestPlacesWriteTheServersCursor(t *testing.T) {
	for n := 1; n < 20; n++ {
		var channels []string
		for i := range n {
			channels = append(channels, fmt.Sprint("channel.", i))
		}
		p, want := newPlaces(channels, nil), stream.NewPositions(channels)
		assert.Empty(t, p.cursor())
		for i, name := range channels {
			id := stream.ID{MS: uint64(1764530000000 + i*7919), N: uint64(i + 1)}
			p.move(name, id)
			want.Set(name, id)
		}
		p.move("another", stream.ID{MS: 1, N: 1})
		require.Equal(t, want.String(), p.cursor())

		c, err := stream.ParseCursor(p.cursor())
		require.NoError(t, err)
		back := newPlaces(channels, &c)
		require.Equal(t, p.cursor(), back.cursor())
	}
}

// A cursor leaves out a channel whose place is not known, and is then never the
// bare id of another.
func TestPlacesThatAreNotAllKnown(t *testing.T) {
	p := newPlaces([]string{"a", "b"}, nil)
	p.move("b", stream.ID{MS: 5, N: 5})
	c, err := stream.ParseCursor(p.cursor())
	require.NoError(t, err)
	assert.False(t, c.Bare())
	_, ok := c.Position("a")
	assert.False(t, ok)
	id, ok := c.Position("b")
	assert.True(t, ok)
	assert.Equal(t, stream.ID{MS: 5, N: 5}, id)
	_, ok = p.of("a")
	assert.False(t, ok)
}
