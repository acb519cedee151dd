//go:build linux

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const clientsHead = `# Clients

Clients that Rejoin is tested with, as they come from their makers. The test run writes this table (` + "`go test -run TestRealClients ./scripts/e2e -update-clients`" + `), and fails when a client does otherwise.

- **live**: messages come as they are published.
- **resume**: the server is killed, messages are published through another one, the first comes back: each message arrives once, in order.
- **gap**: the same, while more is missed than is retained: the gap is told, with the number of messages in it, then comes all that is left.
- **silence**: fifteen seconds without a message, with heartbeats: the connection stays, and nothing is dispatched.
- **age**: ` + "`limits.connection_age`" + ` sends the client away again and again: it comes back by itself, and each message arrives once. A poll has no age; it only has to miss nothing.

Event streams and WebSockets reconnect with the cursor, polls carry it in each request. The readers are in [scripts/interop](../scripts/interop): each is the shortest use of its client. ` +
	"`EventSource` and its like reconnect by themselves; a WebSocket and a poll are opened again by the page. Firefox, rarely, takes a connection that breaks at a bad moment for the end and closes its `EventSource`: a page looks at `readyState` in `onerror`, and opens a new one with `lastEventId=` in the address.\n\n"

// clientsTable is docs/clients.md as the run had it.
func clientsTable(of map[string]*reading) string {
	var table, notes strings.Builder
	fmt.Fprintf(&table, "| client | version | runs in | transport | %s |\n|---|---|---|---|%s\n",
		strings.Join(clientChecks, " | "), strings.Repeat("---|", len(clientChecks)))
	for _, row := range clientRows {
		r := of[row.name]
		if r == nil {
			r = &reading{version: "did not run"}
		}
		cells := []string{row.name, r.version, row.where, row.transport}
		red := false
		for _, what := range clientChecks {
			cells = append(cells, map[bool]string{true: "yes", false: "**no**"}[r.passed[what]])
			red = red || !r.passed[what]
		}
		fmt.Fprintf(&table, "| %s |\n", strings.Join(cells, " | "))
		if red {
			fmt.Fprintf(&notes, "\n**%s.** %s\n", row.name, row.why)
		}
	}
	if notes.Len() > 0 {
		table.WriteString("\n## Why not, and the way round\n" + notes.String())
	}
	return clientsHead + table.String()
}

// readClientsDoc returns the committed results: by client and check, "yes" or
// else.
func readClientsDoc(t *testing.T) map[string]string {
	t.Helper()
	results := map[string]string{}
	b, err := os.ReadFile(clientsDoc)
	if err != nil && !*updateClients {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) == 4+len(clientChecks) {
			for i, what := range clientChecks {
				results[strings.TrimSpace(cells[0])+" "+what] = strings.TrimSpace(cells[4+i])
			}
		}
	}
	return results
}

// judgeClientsDoc compares the committed table with the run, whatever the
// versions, or writes it.
func judgeClientsDoc(t *testing.T, of map[string]*reading, committed map[string]string) {
	t.Helper()
	for name := range of {
		if !slices.ContainsFunc(clientRows, func(row clientRow) bool { return row.name == name }) {
			t.Errorf("%s ran, and has no row", name)
		}
	}
	text := clientsTable(of)
	if *updateClients {
		if err := os.WriteFile(clientsDoc, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		committed = readClientsDoc(t)
	}
	for _, row := range clientRows {
		green := true
		for _, what := range clientChecks {
			passed := of[row.name] != nil && of[row.name].passed[what]
			green = green && passed
			if (committed[row.name+" "+what] == "yes") != passed {
				t.Errorf("docs/clients.md has %q for %s of %s, and it is %v", committed[row.name+" "+what], what, row.name, passed)
			}
		}
		if green == (row.why != "") {
			t.Errorf("%s: all green is %v, and the explanation is %q", row.name, green, row.why)
		}
	}
	if b, err := os.ReadFile(clientsDoc); err != nil || withoutVersions(string(b)) != withoutVersions(text) {
		t.Errorf("docs/clients.md is not what the run would write (-update-clients): %v", err)
	}
}

// withoutVersions empties the column of versions.
func withoutVersions(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if cells := strings.Split(line, " | "); len(cells) == 4+len(clientChecks) && cells[1] != "version" {
			cells[1] = ""
			lines[i] = strings.Join(cells, " | ")
		}
	}
	return strings.Join(lines, "\n")
}
