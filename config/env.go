package config

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
)

const (
	configEnv  = EnvPrefix + "CONFIG" // the file, if --config does not name it
	fileSuffix = "_FILE"              // behind a secret's variable: read it from that file
	maxSecret  = 64 << 10             // most bytes of such a file
)

// notForServers are variables of the commands that talk to a server.
var notForServers = []string{EnvPrefix + "URL", EnvPrefix + "TOKEN"}

// orchestrated matches variables that Kubernetes and Docker links put into
// every container beside a service named rejoin or rejoin-something. They are
// none of ours.
var orchestrated = regexp.MustCompile(`^REJOIN_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)=|^REJOIN_(\w+_)?PORT=\w+://`)

// loadEnv reads REJOIN_*; environ is as [os.Environ].
func (l *loader) loadEnv(environ []string) error {
	var names []string // what is set, sorted, so that the first fault is always the same
	set := map[string]string{}
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, EnvPrefix) && name != configEnv && !slices.Contains(notForServers, name) && !orchestrated.MatchString(kv) {
			names = append(names, name)
			set[name] = text
		}
	}
	slices.SortFunc(names, cmp.Compare[string])

	values := map[string]any{} // by variable
	origin := map[string]string{}
	for _, name := range names {
		s, text, err := fromEnv(name, set)
		if err != nil {
			return err
		}
		v, err := l.value(s, text)
		if err != nil {
			return located(err, name, s.Name)
		}
		values[name], origin[name] = v, s.Name
	}
	return l.load(env.Provider(".", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, _ string) (string, any) {
			return l.keep(origin[name], values[name], name, 0)
		},
	}))
}

// fromEnv finds the setting that a variable means, and its text.
func fromEnv(name string, set map[string]string) (*Setting, string, error) {
	for _, s := range Settings() {
		switch {
		case s.Env == name:
			return &s, set[name], nil
		case s.Secret && s.Env+fileSuffix == name:
			if _, both := set[s.Env]; both {
				return nil, "", &Error{Source: name, Setting: s.Name, Problem: s.Env + " is set too: choose one"}
			}
			text, err := readSecret(set[name])
			if err != nil {
				return nil, "", &Error{Source: name, Setting: s.Name, Problem: err.Error()}
			}
			return &s, text, nil
		}
	}
	return nil, "", &Error{Source: name, Problem: unknownEnv(name)}
}

// readSecret is the content of a small file without the space around it.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxSecret:
		return "", errors.New(path + " is larger than 64KiB: it is not a secret")
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return "", errors.New(path + " is empty")
	}
	return string(text), nil
}
