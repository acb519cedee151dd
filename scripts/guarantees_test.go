package scripts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const guarantees = "../docs/guarantees.md"

// A guarantee's row: its number, its sentence, and what holds it: functions of
// test files, and named checks of the suite of engines.
var (
	rowForm   = regexp.MustCompile(`^\| G(\d+) \| (.+) \| (.+) \|$`)
	proofForm = regexp.MustCompile("^`([\\w./-]+\\.go):(?:((?:Test|Fuzz)\\w+)|\"([^\"]+)\")`$")
)

// TestGuaranteesNameTests reads docs/guarantees.md: each guarantee has a number
// of its own, in order, and every test it names exists.
func TestGuaranteesNameTests(t *testing.T) {
	text, err := os.ReadFile(guarantees)
	if err != nil {
		t.Fatal(err)
	}
	faults, n := judgeGuarantees(string(text), func(path string) string {
		b, _ := os.ReadFile(filepath.Join("..", path))
		return string(b)
	})
	for _, fault := range faults {
		t.Error(fault)
	}
	if n < 50 {
		t.Errorf("only %d guarantees were found: is the table still read?", n)
	}
}

// judgeGuarantees returns what is wrong with the text, and how many guarantees
// it has. source gives a file's text, "" if there is none.
func judgeGuarantees(text string, source func(path string) string) (faults []string, n int) {
	fault := func(line, format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...)+" in "+line)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "| G") {
			continue
		}
		row := rowForm.FindStringSubmatch(line)
		if row == nil {
			fault(line, "not a number, a sentence and tests")
			continue
		}
		if n++; row[1] != fmt.Sprint(n) {
			fault(line, "want number %d", n)
		}
		for _, proof := range strings.Split(row[3], ", `") {
			m := proofForm.FindStringSubmatch("`" + strings.TrimPrefix(proof, "`"))
			if m == nil {
				fault(line, "%q is not a test, as in `stream/id_test.go:TestParseID`,", proof)
				continue
			}
			file := source(m[1])
			switch {
			case file == "":
				fault(line, "there is no file %s", m[1])
			case m[2] != "" && (!strings.HasSuffix(m[1], "_test.go") || !strings.Contains(file, "\nfunc "+m[2]+"(")):
				fault(line, "%s has no test %s", m[1], m[2])
			case m[3] != "" && !strings.Contains(file, `{Name: "`+m[3]+`", Run: `):
				fault(line, "%s has no check %q", m[1], m[3])
			}
		}
	}
	return faults, n
}

func TestGuaranteesCheckCanFail(t *testing.T) {
	files := map[string]string{
		"a/a_test.go": "package a\n\nfunc TestA(t *testing.T) {}\n\nfunc FuzzA(f *testing.F) {}\n",
		"a/a.go":      "package a\n\nfunc TestB(t *testing.T) {}\n\nvar _ = {Name: \"a check\", Run: check},\n",
	}
	judge := func(row string) []string {
		faults, _ := judgeGuarantees("| | sentence | held by |\n| G1 | it is so | `a/a_test.go:TestA` |\n"+row+"\n", func(path string) string { return files[path] })
		return faults
	}
	for _, good := range []string{
		"", "| G2 | so | `a/a_test.go:FuzzA` |", "| G2 | so `x`, and so | `a/a.go:\"a check\"`, `a/a_test.go:TestA` |",
	} {
		if faults := judge(good); len(faults) > 0 {
			t.Errorf("%s: %q", good, faults)
		}
	}
	for _, bad := range []string{
		"| G3 | the wrong number | `a/a_test.go:TestA` |",
		"| G2 | no test |  |",
		"| G2 | no test | |",
		"| G2 | none yet | none yet |",
		"| G2 | no such test | `a/a_test.go:TestC` |",
		"| G2 | the beginning of a name | `a/a_test.go:Test` |",
		"| G2 | no test file | `a/a.go:TestB` |",
		"| G2 | no such file | `b/b_test.go:TestA` |",
		"| G2 | no such check | `a/a.go:\"another check\"` |",
		"| G2 | the second is none | `a/a_test.go:TestA`, `a/a_test.go:TestC` |",
		"| G2 | a cell too few |",
	} {
		if faults := judge(bad); len(faults) == 0 {
			t.Errorf("no fault is found in %s", bad)
		}
	}
}
