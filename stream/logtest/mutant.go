package logtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rejoin/stream"
)

// Rule is the rule of resume with the link it is made of: [stream.Resume] and
// [stream.Follows], or a mutant of them.
type Rule struct {
	Resume  func(c stream.ID, p stream.Page) stream.Verdict
	Follows func(pos stream.ID, e *stream.Entry) bool
}

var theRule = Rule{stream.Resume, stream.Follows}

// Mutant is an append's source with something taken out.
type Mutant struct {
	Name   string // line number and what was done to it
	Script string
}

// MutantSequences is how many random sequences a mutant has to survive, after
// all checks, to count as one that nothing finds.
const MutantSequences = 4_000

// Mutants takes one thing after the other out of the append's source and sees
// the model, the extra checks or the suite's fail for each. Equivalent says of
// mutants by name why nobody could tell them from the original: they are not
// run. A name there that is no mutant's fails, as the source has moved on. With
// -short one in ten is tried.
func Mutants(t *testing.T, new New, source string, equivalent map[string]string, extra ...Check) {
	mutants := LineMutants(source)
	names := map[string]bool{}
	for _, m := range mutants {
		names[m.Name] = true
	}
	for name := range equivalent {
		if !names[name] {
			t.Errorf("%q is said to be equivalent and is no mutant", name)
		}
	}
	mutants = slices.DeleteFunc(mutants, func(m Mutant) bool { return equivalent[m.Name] != "" })
	if testing.Short() {
		from := rand.IntN(10)
		mutants = slices.DeleteFunc(mutants, func(Mutant) bool { from++; return from%10 != 0 })
	}
	killed := map[string]int{}
	for _, m := range mutants {
		by, err := kill(t.Context(), new, m, extra)
		if err == nil {
			t.Errorf("nothing finds the mutant %q", m.Name)
			continue
		}
		killed[by]++
		if testing.Verbose() {
			t.Logf("%-70s %s: %s", m.Name, by, firstLine(err))
		}
	}
	t.Logf("%d mutants, found by %v; %d equivalent", len(mutants), killed, len(equivalent))
}

// kill returns what found the mutant, and how.
func kill(ctx context.Context, new New, m Mutant, extra []Check) (by string, err error) {
	mutated := func(o Options) (Store, error) {
		o.Script = m.Script
		return new(o)
	}
	// Most mutants do not even run; most others do not live for a second.
	for _, sequences := range []int{1, MutantSequences / 80} {
		if _, err := runModel(ctx, mutated, campaign{rule: theRule, seed: 1, sequences: sequences}); err != nil {
			return "the model", err
		}
	}
	for _, c := range append(extra, Checks()...) {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		err := c.Run(ctx, mutated)
		cancel()
		if err != nil {
			return c.Name, err
		}
	}
	_, err = runModel(ctx, mutated, campaign{rule: theRule, seed: 1, sequences: MutantSequences})
	return "the model, after long", err
}

var (
	condition = regexp.MustCompile(`^(\s*(?:if|elseif|while) )(.*)( (?:then|do)\b.*)$`)
	maximum   = regexp.MustCompile(`math\.max\(([^(),]+(?:\([^()]*\))?), ([^(),]+(?:\([^()]*\))?)\)`)
)

// LineMutants takes out of a Lua source each line that is a statement of its
// own, makes each condition true and false and drops each part of it, and takes
// each side of a maximum alone.
func LineMutants(source string) (mutants []Mutant) {
	lines := strings.Split(source, "\n")
	add := func(i int, what, line string) {
		changed := append([]string(nil), lines...)
		changed[i] = line
		mutants = append(mutants, Mutant{
			Name:   fmt.Sprintf("%s: %s", strings.TrimSpace(lines[i]), what),
			Script: strings.Join(changed, "\n"),
		})
	}
	for i, line := range lines {
		code := strings.TrimSpace(line)
		switch {
		case code == "" || strings.HasPrefix(code, "--"), code == "end", code == "else":
			continue
		}
		if m := condition.FindStringSubmatch(line); m != nil {
			before, what, after := m[1], m[2], m[3]
			if !strings.Contains(before, "while") {
				add(i, "always", before+"true"+after)
			}
			add(i, "never", before+"false"+after)
			for _, word := range []string{" or ", " and "} {
				parts := splitTop(what, word)
				for p := range parts {
					if len(parts) > 1 {
						rest := append(append([]string(nil), parts[:p]...), parts[p+1:]...)
						add(i, "without "+parts[p], before+strings.Join(rest, word)+after)
					}
				}
			}
			for _, part := range splitTop(what, " or ") {
				if !strings.HasPrefix(part, "(") || !strings.HasSuffix(part, ")") {
					continue
				}
				inner := part[1 : len(part)-1]
				parts := splitTop(inner, " and ")
				for p := range parts {
					if len(parts) > 1 {
						rest := append(append([]string(nil), parts[:p]...), parts[p+1:]...)
						add(i, "without "+parts[p], before+strings.Replace(what, inner, strings.Join(rest, " and "), 1)+after)
					}
				}
			}
			continue
		}
		for _, m := range maximum.FindAllStringSubmatch(line, -1) {
			add(i, "only "+m[1], strings.Replace(line, m[0], m[1], 1))
			add(i, "only "+m[2], strings.Replace(line, m[0], m[2], 1))
		}
		if opens := strings.Count(line, "(") != strings.Count(line, ")") || strings.Count(line, "{") != strings.Count(line, "}"); !opens &&
			!strings.Contains(line, "function") && !strings.HasPrefix(code, "local ") && !strings.HasPrefix(code, "while") && !strings.HasPrefix(code, "for ") {
			add(i, "taken out", "")
		}
	}
	return mutants
}

// splitTop splits where no bracket is open.
func splitTop(s, word string) (parts []string) {
	depth, from := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 && strings.HasPrefix(s[i:], word) {
			parts = append(parts, s[from:i])
			from = i + len(word)
		}
	}
	return append(parts, s[from:])
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
