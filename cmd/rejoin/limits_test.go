package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// As many readers as set are served; without a setting as many as file
// descriptors allow, and that is said at start.
// Holds G91.
func TestConnectionsAreLimited(t *testing.T) {
	p := start(t, "--limits-connections=1")
	p.subscribe("channel=a").until("event: rejoin.ready")
	full := p.subscribe("channel=a")
	full.until("retry: 30000")
	full.until("event: rejoin.error")
	status, _ := p.get(p.listen + "/v1/poll?channel=a")
	assert.Equal(t, http.StatusTooManyRequests, status)
	status, _ = p.publish("a", "x")
	assert.Equal(t, http.StatusCreated, status)
	assert.Contains(t, strings.Join(p.lines, "\n"), `"readers":1,`)

	p = start(t)
	var line struct {
		Readers int
		Files   uint64 `json:"file_descriptors"`
	}
	for _, text := range p.lines {
		if strings.Contains(text, "limits.connections") {
			require.NoError(t, json.Unmarshal([]byte(text), &line))
		}
	}
	if files := raiseFiles(); files > 0 {
		assert.Equal(t, files, line.Files)
		assert.Equal(t, maxConnections(0, files), line.Readers)
		assert.Less(t, uint64(line.Readers), files)
	}
	p.subscribe("channel=a").until("event: rejoin.ready")
}

// A connection that has its age is told to move, and closed.
// Holds G92.
func TestConnectionAge(t *testing.T) {
	p := start(t, "--limits-connection-age=50ms", "--drain-window=20ms")
	s := p.subscribe("channel=a")
	s.until("event: rejoin.ready")
	s.until("event: rejoin.move")
	assert.Equal(t, `data: {"within":20}`, s.until("data: "))
	for s.lines.Scan() {
	}
	assert.Error(t, s.lines.Err(), "never a clean end")
}

// A call for many has room for two of the largest messages.
// Holds G83.
func TestManyHasRoomForTheLargest(t *testing.T) {
	p := start(t, "--limits-payload=5MiB")
	body := fmt.Sprintf(`{"messages":[{"channel":"a","payload":"%s"},{"channel":"b","payload":"x"}]}`, strings.Repeat("x", 5<<20))
	res, err := http.Post(p.listen+"/v1/messages", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer res.Body.Close()
	var answer struct{ Results []struct{ ID string } }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	require.Len(t, answer.Results, 2)
	assert.NotEmpty(t, answer.Results[0].ID)
}
