package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// maxFile is the most bytes that a settings file may have.
const maxFile = 1 << 20

// Load reads the settings from all sources and checks them. The flags are those
// of [AddFlags], parsed; environ is as [os.Environ]. Every error is an [Error],
// the first found; the order is fixed: the file from top to bottom, the
// environment by name, the flags in the order of the settings, and then what
// must hold between settings.
func Load(flags *pflag.FlagSet, environ []string) (*Config, error) {
	l := &loader{k: koanf.New("."), lists: map[string][]element{}, origins: map[string]string{}}
	if err := l.load(structs.Provider(Default(), "koanf")); err != nil {
		return nil, err
	}
	if err := l.loadFile(filePath(flags, environ)); err != nil {
		return nil, err
	}
	if err := l.loadEnv(environ); err != nil {
		return nil, err
	}
	if err := l.loadFlags(flags); err != nil {
		return nil, err
	}
	return l.config()
}

// loader gathers the sources; every value in k has its setting's own type.
type loader struct {
	k       *koanf.Koanf
	lists   map[string][]element // by setting; of the source with the last word
	origins map[string]string
}

func (l *loader) load(p koanf.Provider) error { return l.k.Load(p, nil) }

// value makes a setting's value from the text of a variable or a flag.
func (l *loader) value(s *Setting, text string) (any, error) {
	if s.elements() != nil {
		list, fault := s.listFromText(text)
		if fault != nil {
			return nil, fault
		}
		return list, nil
	}
	if text == "" && s.typ.Kind() != reflect.String && s.typ.Kind() != reflect.Slice {
		return nil, errors.New("is empty: give a value, or unset it for the default")
	}
	return s.value(text)
}

// keep notes where a value came from, a line of 0 being none, and passes the
// value on to koanf. Lists are kept aside: what their elements leave out is known
// once all sources are read.
func (l *loader) keep(setting string, v any, source string, line int) (string, any) {
	if setting == "" {
		return "", nil
	}
	l.origins[setting] = place(source, line)
	list, ok := v.([]element)
	if !ok {
		return setting, v
	}
	l.lists[setting] = list
	for name := range l.origins {
		if strings.HasPrefix(name, setting+"[") {
			delete(l.origins, name)
		}
	}
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", setting, i)
		in := func(n int) string {
			if line == 0 {
				n = 0 // one text: its lines say nothing
			}
			return place(source, n)
		}
		l.origins[at] = in(e.line)
		for name, line := range e.lines {
			l.origins[at+"."+name] = in(line)
		}
	}
	return "", nil
}

// place names a source and the line in it.
func place(source string, line int) string {
	if line == 0 {
		return source
	}
	return fmt.Sprintf("%s:%d", source, line)
}

// located completes an error: it came from this source, about this setting
// unless it names one itself.
func located(err error, source, setting string) error {
	fault, ok := err.(*Error)
	if !ok {
		fault = &Error{Problem: err.Error()}
	}
	if fault.Setting == "" {
		fault.Setting = setting
	}
	fault.Source = source
	return fault
}

func filePath(flags *pflag.FlagSet, environ []string) string {
	if f := flags.Lookup(configFlag); f != nil && f.Changed {
		return f.Value.String()
	}
	for _, kv := range environ {
		if path, ok := strings.CutPrefix(kv, configEnv+"="); ok {
			return path
		}
	}
	return ""
}

// loadFile reads the YAML file; "" is none.
func (l *loader) loadFile(path string) error {
	if path == "" {
		return nil
	}
	fail := func(fault *Error) error {
		fault.Source = place(path, fault.line)
		return fault
	}
	text, err := readFile(path)
	if err != nil {
		return &Error{Problem: "settings file: " + err.Error()}
	}
	node, fault := parseYAML(text)
	if fault != nil {
		return fail(fault)
	}
	if node == nil {
		return nil
	}
	leaves, fault := flatten(node)
	if fault != nil {
		return fail(fault)
	}
	values := map[string]any{}
	for _, leaf := range leaves {
		v, fault := leaf.value(Settings())
		if fault != nil {
			return fail(fault)
		}
		if v == nil {
			continue
		}
		if name, v := l.keep(leaf.name, v, path, leaf.node.Line); name != "" {
			values[name] = v
		}
	}
	return l.load(confmap.Provider(values, "."))
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than 1MiB", path)
	}
	return text, err
}

// config makes the struct and checks what needs more than one setting.
func (l *loader) config() (*Config, error) {
	for _, s := range Settings() {
		if s.elements() != nil {
			l.k.Delete(s.Name)
		}
	}
	c := &Config{origins: l.origins}
	err := l.k.UnmarshalWithConf("", c, koanf.UnmarshalConf{
		DecoderConfig: &mapstructure.DecoderConfig{ErrorUnused: true, TagName: "koanf"},
	})
	if err != nil {
		return nil, &Error{Problem: err.Error()}
	}
	if err := c.resolve(l.lists); err != nil {
		return nil, err
	}
	if err := c.checkTogether(); err != nil {
		return nil, err
	}
	return c, nil
}
