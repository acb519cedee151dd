package scripts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "rejoin"

// A room is a folder and what its packages may import of ours. Rows go from
// the ground up: a room may only name rooms above its own row.
type room struct {
	path  string   // folder, subfolders included unless they have a row of their own
	may   []string // our rooms that its code may import
	tests []string // what its tests may import beyond that
	std   bool     // of others only the standard library
}

var rooms = []room{
	{path: "stream", std: true},
	{path: "stream/logtest", may: []string{"stream"}},
	{path: "stream/memlog", may: []string{"stream"}, tests: []string{"stream/logtest"}},
	{path: "stream/redislog/redistest"},
	{path: "stream/redislog", may: []string{"stream"}, tests: []string{"stream/logtest", "stream/redislog/redistest"}},
	{path: "delivery", may: []string{"stream"}, tests: engines},
	{path: "sse", may: []string{"stream", "delivery"}, tests: engines},
	{path: "longpoll", may: []string{"stream", "delivery"}, tests: engines},
	{path: "ws", may: []string{"stream", "delivery"}, tests: engines},
	{path: "api", may: []string{"stream", "delivery", "sse", "longpoll", "ws"}, tests: engines},
	{path: "client", may: []string{"stream"}, tests: append([]string{"delivery", "api"}, engines...)},
	{path: "config"},
	{path: "cmd/rejoin/bench"},
	{path: "cmd/rejoin", may: []string{
		"stream", "stream/memlog", "stream/redislog", "delivery", "api", "client", "config", "cmd/rejoin/bench",
	}, tests: []string{"stream/redislog/redistest"}},
	{path: "scripts", tests: []string{"stream", "stream/redislog/redistest"}},
}

// engines are what tests read from.
var engines = []string{"stream/memlog", "stream/redislog", "stream/redislog/redistest"}

// limited are imports of others that only some rooms may have, directly in code
// and tests.
var limited = map[string][]string{
	"github.com/redis/go-redis": {"stream/redislog", "stream/redislog/redistest"},
}

// farFrom are imports that a room must not reach even through others.
var farFrom = map[string][]string{
	"stream":   {"net", "net/http"},
	"delivery": {"net/http"},
}

// A pkg is a package of the graph, as the go command lists it.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Standard     bool
}

// judge returns every import that the tables forbid, in order.
func judge(graph map[string]*pkg) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for path, p := range graph {
		if !ours(path) {
			continue
		}
		r := roomOf(path)
		if r == nil {
			fault("%s is in no room: add a row to the table of this test", path)
			continue
		}
		for _, imported := range p.Imports {
			r.judge(graph, path, imported, r.may, fault)
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			r.judge(graph, path+" (test)", imported, slices.Concat(r.may, r.tests), fault)
		}
		for _, far := range farFrom[r.path] {
			if way := reach(graph, path, far, nil); way != nil {
				fault("%s reaches %s: %s", path, far, strings.Join(way, " → "))
			}
		}
	}
	slices.Sort(faults)
	return slices.Compact(faults)
}

// judge judges one import of a package in room r.
func (r *room) judge(graph map[string]*pkg, from, imported string, may []string, fault func(string, ...any)) {
	for prefix, only := range limited {
		if under(imported, prefix) && !slices.Contains(only, r.path) {
			fault("%s imports %s: only %s may", from, imported, strings.Join(only, ", "))
		}
	}
	if ours(imported) {
		switch other := roomOf(imported); {
		case other == nil, other.path == r.path, slices.Contains(may, other.path):
		default:
			fault("%s imports %s: %s may import %s", from, imported, r.path, cmp.Or(strings.Join(may, ", "), "none of ours"))
		}
		return
	}
	test := strings.HasSuffix(from, " (test)")
	if p := graph[imported]; r.std && !test && (p == nil || !p.Standard) {
		fault("%s imports %s: %s may import only the standard library", from, imported, r.path)
	}
}

func ours(path string) bool { return under(path, module) }

func under(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// roomOf is the room of a package of ours, nil if there is none: the row with
// the longest path that holds it.
func roomOf(path string) *room {
	var found *room
	for i := range rooms {
		if r := &rooms[i]; under(path, module+"/"+r.path) && (found == nil || len(r.path) > len(found.path)) {
			found = r
		}
	}
	return found
}

// reach is the way of imports from one package to another, nil if there is none.
func reach(graph map[string]*pkg, from, to string, seen map[string]bool) []string {
	if seen == nil {
		seen = map[string]bool{}
	}
	if seen[from] || graph[from] == nil {
		return nil
	}
	seen[from] = true
	if slices.Contains(graph[from].Imports, to) {
		return []string{from, to}
	}
	for _, next := range graph[from].Imports {
		if way := reach(graph, next, to, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}

// list asks the go command for all packages of the module as they are on a
// system, and all that they import.
func list(t *testing.T, goos string) map[string]*pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Imports,TestImports,XTestImports,Standard", "./...")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS="+goos)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	graph := map[string]*pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return graph
		} else if err != nil {
			t.Fatal(err)
		}
		graph[p.ImportPath] = &p
	}
}

func TestImportOrder(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		graph := list(t, goos)
		if graph[module+"/stream"] == nil || graph[module+"/cmd/rejoin"] == nil {
			t.Fatalf("%s: the list holds %d packages, but not stream and cmd/rejoin", goos, len(graph))
		}
		for _, fault := range judge(graph) {
			t.Errorf("%s: %s", goos, fault)
		}
	}
}

// The table itself must hold to its rule: no room above may name one below.
func TestRoomsAreInOrder(t *testing.T) {
	above := map[string]bool{}
	for _, r := range rooms {
		for _, other := range r.may {
			if !above[other] {
				t.Errorf("%s may import %s, which is not above it", r.path, other)
			}
		}
		above[r.path] = true
	}
}

// TestImportOrderCanFail breaks each rule once in a made-up graph.
func TestImportOrderCanFail(t *testing.T) {
	const goRedis = "github.com/redis/go-redis/v9"
	good := func() map[string]*pkg {
		graph := map[string]*pkg{
			"errors":                           {Standard: true},
			"net":                              {Standard: true},
			"net/http":                         {Standard: true, Imports: []string{"net"}},
			"example.org/far":                  {Imports: []string{"net/http"}},
			"example.org/any":                  {},
			goRedis:                            {},
			"rejoin/stream":                    {Imports: []string{"errors"}, XTestImports: []string{"rejoin/stream", "example.org/any"}},
			"rejoin/stream/logtest":            {Imports: []string{"rejoin/stream"}},
			"rejoin/stream/memlog":             {Imports: []string{"rejoin/stream"}, XTestImports: []string{"rejoin/stream/logtest"}},
			"rejoin/stream/redislog":           {Imports: []string{"rejoin/stream", goRedis}},
			"rejoin/delivery":                  {Imports: []string{"rejoin/stream"}, TestImports: []string{"rejoin/stream/memlog"}},
			"rejoin/sse":                       {Imports: []string{"rejoin/delivery", "net/http"}},
			"rejoin/ws":                        {Imports: []string{"rejoin/delivery", "net/http"}},
			"rejoin/longpoll":                  {Imports: []string{"rejoin/delivery"}},
			"rejoin/api":                       {Imports: []string{"rejoin/sse", "rejoin/ws", "rejoin/longpoll"}},
			"rejoin/client":                    {Imports: []string{"rejoin/stream"}},
			"rejoin/config":                    {Imports: []string{"example.org/any"}},
			"rejoin/cmd/rejoin":                {Imports: []string{"rejoin/config", "rejoin/api", "rejoin/stream/memlog"}},
			"rejoin/cmd/rejoin/bench":          {Imports: []string{"net/http"}},
			"rejoin/scripts/e2e":               {TestImports: []string{"rejoin/stream/redislog/redistest"}},
			"rejoin/stream/redislog/redistest": {Imports: []string{goRedis}},
		}
		for path, p := range graph {
			p.ImportPath = path
		}
		return graph
	}
	if faults := judge(good()); len(faults) > 0 {
		t.Fatalf("the good graph is found faulty:\n%s", strings.Join(faults, "\n"))
	}
	for _, c := range []struct{ from, imported, want string }{
		{"rejoin/stream", "example.org/any", "may import only the standard library"},
		{"rejoin/stream", "net/http", "reaches net/http"},
		{"rejoin/stream", "rejoin/config", "none of ours"},
		{"rejoin/stream/memlog", "rejoin/stream/redislog", "may import stream"},
		{"rejoin/stream/memlog", goRedis, "only stream/redislog"},
		{"rejoin/stream/memlog", "rejoin/stream/logtest", "may import stream"},
		{"rejoin/stream/redislog", "rejoin/delivery", "may import stream"},
		{"rejoin/delivery", "net/http", "rejoin/delivery → net/http"},
		{"rejoin/delivery", "example.org/far", "rejoin/delivery → example.org/far → net/http"},
		{"rejoin/delivery", "rejoin/stream/memlog", "may import stream"},
		{"rejoin/delivery", "rejoin/sse", "may import stream"},
		{"rejoin/sse", "rejoin/ws", "may import stream, delivery"},
		{"rejoin/ws", "rejoin/longpoll", "may import stream, delivery"},
		{"rejoin/longpoll", "rejoin/sse", "may import stream, delivery"},
		{"rejoin/sse", "rejoin/api", "may import stream, delivery"},
		{"rejoin/api", goRedis, "only stream/redislog"},
		{"rejoin/api", "rejoin/config", "rejoin/api imports rejoin/config"},
		{"rejoin/client", "rejoin/api", "rejoin/client imports rejoin/api"},
		{"rejoin/config", "rejoin/stream", "none of ours"},
		{"rejoin/cmd/rejoin/bench", "rejoin/stream", "none of ours"},
		{"rejoin/cmd/rejoin", "rejoin/stream/redislog/redistest", "rejoin/cmd/rejoin imports"},
		{"rejoin/scripts/e2e", "rejoin/api", "none of ours"},
		{"rejoin/util", "errors", "rejoin/util is in no room"},
		{"rejoin", "errors", "rejoin is in no room"},
	} {
		graph := good()
		if graph[c.from] == nil {
			graph[c.from] = &pkg{ImportPath: c.from}
		}
		graph[c.from].Imports = append(graph[c.from].Imports, c.imported)
		if faults := strings.Join(judge(graph), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("%s imports %s: found %q, want %q", c.from, c.imported, faults, c.want)
		}
	}
	for _, c := range []struct{ from, imported, want string }{
		{"rejoin/delivery", "rejoin/sse", "(test) imports rejoin/sse"},
		{"rejoin/sse", goRedis, "only stream/redislog"},
	} {
		graph := good()
		graph[c.from].TestImports = append(graph[c.from].TestImports, c.imported)
		if faults := strings.Join(judge(graph), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("a test of %s imports %s: found %q, want %q", c.from, c.imported, faults, c.want)
		}
	}
}
