//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"rejoin/stream/redislog/redistest"
)

const protocol = "../../docs/protocol.md"

// Every line of shell in docs/protocol.md works, from the first to the last, on
// a fresh server.
// Holds G79.
func TestProtocolExamples(t *testing.T) {
	s := serve(t, plain)
	seen := filepath.Join(t.TempDir(), "seen")
	blocks := fenced(t, protocol, "sh")
	if len(blocks) < 5 {
		t.Fatalf("only %d blocks of sh", len(blocks))
	}
	for line := range strings.Lines(strings.Join(blocks, "")) {
		script := strings.NewReplacer("http://localhost:8080", s.url, "/tmp/seen", seen).Replace(line)
		cmd := exec.CommandContext(t.Context(), "bash", "-c", `curl() { command curl -s --fail-with-body "$@"; }; `+script)
		out, err := cmd.Output()
		// 28: a reader whose time, -m 1, is up.
		if err != nil && !(cmd.ProcessState.ExitCode() == 28 && strings.Contains(script, "-m 1")) || len(out) == 0 {
			t.Errorf("%s\n%v\n%s", script, err, out)
		}
	}
}

// rows are the cells of the table under the heading.
func rows(t *testing.T, heading string) [][]string {
	t.Helper()
	_, section, ok := strings.Cut(read(t, protocol), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", protocol, heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	var all [][]string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.Trim(line, "|- ") == "" {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	if len(all) == 0 {
		t.Fatalf("%s: no table under %q", protocol, heading)
	}
	return all
}

var quoted = regexp.MustCompile("`([^`]*)`")

// words are the texts in backquotes, without what stands in braces behind them.
func words(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		word, _, _ := strings.Cut(m[1], "{")
		all = append(all, word)
	}
	return all
}

// The table of settings is what the program has: names and defaults.
// Holds G79.
func TestProtocolSettings(t *testing.T) {
	path, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "config")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := yaml.Unmarshal(out, &settings); err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	flatten("", settings, has)

	written := map[string]string{}
	for _, cells := range rows(t, "## The program and its settings") {
		names, defaults := words(cells[0]), words(cells[1])
		for i, name := range names {
			written[name] = ""
			if i < len(defaults) {
				written[name] = defaults[i]
			}
		}
	}
	compare(t, "setting", has, written)
}

func flatten(prefix string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			flatten(strings.TrimPrefix(prefix+"."+name, "."), value, into)
		}
	case []any:
		into[prefix] = ""
	default:
		into[prefix] = fmt.Sprint(v)
	}
}

// compare reports what only one of the program and the document has, and what
// they have differently.
func compare(t *testing.T, what string, has, written map[string]string) {
	t.Helper()
	for name, value := range has {
		if text, ok := written[name]; !ok {
			t.Errorf("the %s %s is not in %s", what, name, protocol)
		} else if text != value {
			t.Errorf("the %s %s is %q, and in %s %q", what, name, value, protocol, text)
		}
	}
	for name := range written {
		if _, ok := has[name]; !ok {
			t.Errorf("%s tells of the %s %s, which there is not", protocol, what, name)
		}
	}
}

// The tables of metrics and of errors are what a server has.
// Holds G55.
func TestProtocolMetricsAndErrors(t *testing.T) {
	redis := redistest.Start(t)
	s := serve(t, plain, "--redis-url", redis.URL())
	put(t, s, "a", "x") // some metrics show at the first call, or the first failure
	redis.Kill()
	if status, _ := try(t, s, "a", "x", ""); status != http.StatusServiceUnavailable {
		t.Errorf("publishing without a log is answered %d", status)
	}
	res, err := web.Get(s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	list := func(pattern string) map[string]string {
		all := map[string]string{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = ""
		}
		return all
	}
	metrics, codes := map[string]string{}, map[string]string{}
	for _, cells := range rows(t, "## Health and metrics") {
		for _, name := range words(cells[0]) {
			if strings.HasPrefix(name, "rejoin_") {
				metrics[name] = ""
			}
		}
	}
	for _, cells := range rows(t, "## Errors") {
		for _, name := range words(cells[1]) {
			codes[name] = ""
		}
	}
	compare(t, "metric", list(`(?m)^# TYPE (rejoin_\w+) `), metrics)
	compare(t, "code", list(`(?m)^rejoin_problems_total\{code="(\w+)"\}`), codes)
}

// What the document says is not built is refused by name: when it is built, the
// document is to be changed.
// Holds G36.
func TestProtocolSaysWhatIsNotBuilt(t *testing.T) {
	s := serve(t, plain)
	for _, cells := range rows(t, "## Not built yet") {
		if len(words(cells[0])) == 0 {
			continue // the table's head
		}
		method, target, _ := strings.Cut(words(strings.NewReplacer("{channel}", "a", "{id}", "1764530000123-1").Replace(cells[0]))[0], " ")
		if strings.HasSuffix(target, "=") {
			target += "1"
		}
		req, err := http.NewRequest(method, s.url+target, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var problem struct{ Detail string }
		err = json.NewDecoder(res.Body).Decode(&problem)
		_ = res.Body.Close()
		if err != nil || !slices.Contains(cells[1:], fmt.Sprint(res.StatusCode)) || !strings.Contains(problem.Detail, "does not serve") {
			t.Errorf("%s %s is answered %d %q %v; %s says %s", method, target, res.StatusCode, problem.Detail, err, protocol, cells[1])
		}
	}
}
