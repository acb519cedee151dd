package config

import (
	"errors"
	"reflect"
	"time"

	"github.com/knadh/koanf/providers/posflag"
	"github.com/spf13/pflag"
)

const configFlag = "config"

// AddFlags gives a command --config and a flag for each setting, in the order
// of the struct. [Load] reads them; a bad value is found there, not while the
// command line is parsed.
func AddFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringP(configFlag, "c", "", "read settings from this YAML `file`")
	for _, s := range Settings() {
		f := flags.VarPF(&flagValue{text: s.Default, typ: s.typ, unit: s.tag.Get("unit")}, s.Flag, "", s.Help)
		if s.typ.Kind() == reflect.Bool {
			f.NoOptDefVal = "true"
		}
	}
}

// flagValue keeps a flag's text as it was given.
type flagValue struct {
	text string
	typ  reflect.Type
	unit string
	set  bool
}

func (v *flagValue) String() string { return v.text }

// Set keeps the text; a list given again grows.
func (v *flagValue) Set(text string) error {
	if v.set && v.typ == reflect.TypeFor[[]string]() {
		text = v.text + "," + text
	}
	v.text, v.set = text, true
	return nil
}

// Type is what stands for the value in help texts.
func (v *flagValue) Type() string {
	switch v.typ {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[[]string]():
		return "list"
	case reflect.TypeFor[[]Channel](), reflect.TypeFor[[]Key]():
		return "yaml"
	case reflect.TypeFor[string]():
		return v.unit
	}
	return v.typ.Kind().String()
}

// loadFlags reads the flags that were given.
func (l *loader) loadFlags(flags *pflag.FlagSet) error {
	var first error
	err := l.load(posflag.ProviderWithFlag(flags, ".", nil, func(f *pflag.Flag) (string, any) {
		for _, s := range Settings() {
			if s.Flag != f.Name || !f.Changed {
				continue
			}
			v, err := l.value(&s, f.Value.String())
			if err != nil {
				if first == nil {
					first = located(err, "--"+f.Name, s.Name)
				}
				return "", nil
			}
			return l.keep(s.Name, v, "--"+f.Name, 0)
		}
		return "", nil
	}))
	return errors.Join(first, err)
}

// FlagError puts what pflag says of a command line into our words: an unknown
// flag gets the nearest known one of the set.
func FlagError(flags *pflag.FlagSet, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || missing.GetSpecifiedShortnames() != "" {
		return &Error{Problem: err.Error()}
	}
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	name := missing.GetSpecifiedName()
	return &Error{Source: "--" + name, Problem: unknownFlag(name, known)}
}
