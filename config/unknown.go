package config

import (
	"strings"
)

// notBuilt names settings, and sections of them, that are planned and refused
// until they do something.
var notBuilt = []string{
	"conflate", // of a rule of channels
}

const notBuiltYet = "is not built yet: take it out"

// unknown says what is wrong with a name that is no setting of the list.
func unknown(name string, list []Setting) string {
	for _, n := range notBuilt {
		if name == n || strings.HasPrefix(name, n+".") {
			return notBuiltYet
		}
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return "unknown setting" + didYouMean(name, names)
}

// unknownEnv is [unknown] for an environment variable.
func unknownEnv(name string) string {
	for _, n := range notBuilt {
		if name == envName(n) || strings.HasPrefix(name, envName(n)+"_") {
			return notBuiltYet
		}
	}
	names := []string{configEnv}
	for _, s := range Settings() {
		names = append(names, s.Env)
		if s.Secret {
			names = append(names, s.Env+fileSuffix)
		}
	}
	return "unknown setting" + didYouMean(name, names)
}

// unknownFlag is [unknown] for a flag, given and known without dashes before.
func unknownFlag(name string, known []string) string {
	for _, n := range notBuilt {
		if name == flagName(n) || strings.HasPrefix(name, flagName(n)+"-") {
			return notBuiltYet
		}
	}
	hint := didYouMean(name, known)
	return "unknown flag" + strings.Replace(hint, "did you mean ", "did you mean --", 1)
}

// didYouMean names the known name nearest to a wrong one: the only one that
// ends with it, else the one fewest edits away, if these are few.
func didYouMean(wrong string, known []string) string {
	var ending []string
	for _, name := range known {
		if strings.HasSuffix(name, "."+wrong) {
			ending = append(ending, name)
		}
	}
	if len(ending) == 1 {
		return ": did you mean " + ending[0] + "?"
	}
	best, least := "", max(2, len(wrong)/4)+1
	for _, name := range known {
		if d := edits(strings.ToLower(wrong), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean " + best + "?"
}

// edits is the Levenshtein distance of two texts, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
