package scripts

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the numbers of docs/guarantees.md into the tests it names")

const guarantees = "../docs/guarantees.md"

// A guarantee's row: its number, its sentence, and what holds it: functions of
// test files, and named checks of the suite of engines.
var (
	rowForm   = regexp.MustCompile(`^\| G(\d+) \| (.+) \| (.+) \|$`)
	proofForm = regexp.MustCompile("^([\\w./-]+\\.go):(?:((?:Test|Fuzz)\\w+)|\"([^\"]+)\")$")
)

// A proof is a test that the table names, and the guarantees it holds.
type proof struct {
	file, test string // test: as it is declared, "func TestX(" or `{Name: "x", `
	numbers    []int
}

// TestGuaranteesNameTests reads docs/guarantees.md: each guarantee has a number
// of its own, every test it names exists, and says itself what it holds. With
// -update it makes the last true.
func TestGuaranteesNameTests(t *testing.T) {
	proofs, n, faults := readGuarantees(read(t, guarantees))
	if n < 50 {
		t.Errorf("only %d guarantees were found: is the table still read?", n)
	}
	files := map[string]string{}
	for _, p := range proofs {
		path := filepath.Join("..", p.file)
		if b, err := os.ReadFile(path); err == nil {
			files[p.file] = string(b)
		}
	}
	if *update {
		for file, text := range files {
			if changed := number(text, file, proofs); changed != text {
				if err := os.WriteFile(filepath.Join("..", file), []byte(changed), 0o644); err != nil {
					t.Fatal(err)
				}
				files[file] = changed
			}
		}
	}
	for _, fault := range append(faults, judgeProofs(proofs, files)...) {
		t.Error(fault)
	}
	for _, m := range regexp.MustCompile(`\bG(\d+)\b`).FindAllStringSubmatch(read(t, "../ARCHITECTURE.md"), -1) {
		if g, _ := strconv.Atoi(m[1]); g < 1 || g > n {
			t.Errorf("ARCHITECTURE.md speaks of %s, and there are %d guarantees", m[0], n)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readGuarantees returns the tests that the table names, how many guarantees it
// has, and what is wrong with it.
func readGuarantees(text string) (proofs []proof, n int, faults []string) {
	fault := func(line, format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...)+" in "+line)
	}
	var numbers []int
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
		g, _ := strconv.Atoi(row[1]) // of digits alone
		numbers = append(numbers, g)
		for _, text := range strings.Split(strings.Trim(row[3], "`"), "`, `") {
			m := proofForm.FindStringSubmatch(text)
			if m == nil {
				fault(line, "%q is not a test, as in stream/id_test.go:TestParseID,", text)
				continue
			}
			test := "func " + m[2] + "("
			if m[3] != "" {
				test = `{Name: "` + m[3] + `", `
			}
			i := slices.IndexFunc(proofs, func(p proof) bool { return p.file == m[1] && p.test == test })
			if i < 0 {
				i = len(proofs)
				proofs = append(proofs, proof{file: m[1], test: test})
			}
			proofs[i].numbers = append(proofs[i].numbers, g)
		}
	}
	slices.Sort(numbers)
	for i, g := range numbers {
		if g != i+1 {
			fault(fmt.Sprint(numbers), "G%d is missing or there twice", i+1)
			break
		}
	}
	return proofs, len(numbers), faults
}

// judgeProofs returns the tests that do not exist or do not say what they hold.
func judgeProofs(proofs []proof, files map[string]string) (faults []string) {
	for _, p := range proofs {
		text, ok := files[p.file]
		switch at := strings.Index("\n"+text, "\n"+p.test); {
		case !ok:
			faults = append(faults, "there is no file "+p.file)
		case strings.HasPrefix(p.test, "func "):
			if at < 0 || !strings.HasSuffix(p.file, "_test.go") {
				faults = append(faults, p.file+" has no test "+p.test)
			} else if !strings.HasSuffix(text[:at], holds(p.numbers)+"\n") {
				faults = append(faults, p.file+": the line above "+p.test+" is not "+holds(p.numbers)+" (go test ./scripts -update)")
			}
		case !strings.Contains(text, p.test):
			faults = append(faults, p.file+" has no check "+p.test)
		}
	}
	for file, text := range files {
		said := strings.Count("\n"+text, "\n// Holds G")
		named := 0
		for _, p := range proofs {
			if p.file == file && strings.HasPrefix(p.test, "func ") {
				named++
			}
		}
		if said > named {
			faults = append(faults, file+" has a test that says it holds what docs/guarantees.md does not (go test ./scripts -update)")
		}
	}
	slices.Sort(faults)
	return faults
}

// holds is the last line of the comment of a test that holds these guarantees.
func holds(numbers []int) string {
	var words []string
	for _, n := range numbers {
		words = append(words, fmt.Sprint("G", n))
	}
	return "// Holds " + strings.Join(words, ", ") + "."
}

var oldHolds = regexp.MustCompile(`(?m)^// Holds G[\dG, ]+\.\n`)

// number writes into a file's text what its tests hold.
func number(text, file string, proofs []proof) string {
	text = "\n" + oldHolds.ReplaceAllString(text, "")
	for _, p := range proofs {
		if p.file == file && strings.HasPrefix(p.test, "func ") {
			text = strings.Replace(text, "\n"+p.test, "\n"+holds(p.numbers)+"\n"+p.test, 1)
		}
	}
	return text[1:]
}

func TestGuaranteesCheckCanFail(t *testing.T) {
	files := map[string]string{
		"a/a_test.go": "package a\n\n// TestA tests.\n// Holds G1.\nfunc TestA(t *testing.T) {}\n\n// Holds G2.\nfunc FuzzA(f *testing.F) {}\n",
		"a/a.go":      "package a\n\n// Holds G2.\nfunc TestB(t *testing.T) {}\n\nvar _ = {Name: \"a check\", Run: check},\n",
	}
	judge := func(row string) []string {
		proofs, _, faults := readGuarantees("| | sentence | held by |\n| G1 | it is so | `a/a_test.go:TestA` |\n" + row + "\n")
		used := map[string]string{}
		for _, p := range proofs {
			if text, ok := files[p.file]; ok {
				used[p.file] = text
			}
		}
		return append(faults, judgeProofs(proofs, used)...)
	}
	for _, good := range []string{
		"| G2 | so | `a/a_test.go:FuzzA` |", "| G2 | so `x`, and so | `a/a_test.go:FuzzA`, `stream/a.go:\"a check\"` |",
	} {
		files["stream/a.go"] = strings.Replace(files["a/a.go"], "// Holds G2.\n", "", 1)
		if faults := judge(good); len(faults) > 0 {
			t.Errorf("%s: %q", good, faults)
		}
	}
	for _, bad := range []string{
		"",                                  // FuzzA says G2, the table does not
		"| G2 | so | `a/a_test.go:TestA` |", // TestA does not say G2
		"| G3 | the wrong number | `a/a_test.go:FuzzA` |",
		"| G1 | the number again | `a/a_test.go:FuzzA` |",
		"| G2 | no test | |",
		"| G2 | no test |  |",
		"| G2 | none yet | none yet |",
		"| G2 | no such test | `a/a_test.go:TestC`, `a/a_test.go:FuzzA` |",
		"| G2 | the beginning of a name | `a/a_test.go:Test`, `a/a_test.go:FuzzA` |",
		"| G2 | no test file | `a/a.go:TestB`, `a/a_test.go:FuzzA` |",
		"| G2 | no such file | `b/b_test.go:TestA`, `a/a_test.go:FuzzA` |",
		"| G2 | no such check | `stream/a.go:\"another check\"`, `a/a_test.go:FuzzA` |",
		"| G2 | a cell too few |",
	} {
		if faults := judge(bad); len(faults) == 0 {
			t.Errorf("no fault is found in %q", bad)
		}
	}

	proofs, _, _ := readGuarantees("| G1 | x | `a/a_test.go:TestA`, `a/a_test.go:FuzzA` |\n| G2 | x | `a/a_test.go:TestA` |\n")
	want := "package a\n\n// TestA tests.\n// Holds G1, G2.\nfunc TestA(t *testing.T) {}\n\n// Holds G1.\nfunc FuzzA(f *testing.F) {}\n"
	if got := number(files["a/a_test.go"], "a/a_test.go", proofs); got != want {
		t.Errorf("numbered:\n%s", got)
	}
}
