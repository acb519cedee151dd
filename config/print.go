package config

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes the effective settings, secrets masked. Behind each value
// that is not the default stands where it came from. What rules of channels
// left out is filled in.
func (c *Config) WriteYAML(w io.Writer) error {
	p := printer{c: c}
	p.settings(Settings(), reflect.ValueOf(c).Elem(), "")
	_, err := io.WriteString(w, p.b.String())
	return err
}

// printer writes YAML.
type printer struct {
	c *Config
	b strings.Builder
	// indent stands before each line; dash instead of it before the next.
	indent, dash string
}

func (p *printer) line(text string) {
	lead := p.indent
	if p.dash != "" {
		lead, p.dash = p.dash, ""
	}
	p.b.WriteString(lead + text + "\n")
}

// settings writes those of one struct; origins are looked up under at.
func (p *printer) settings(list []Setting, v reflect.Value, at string) {
	outer := p.indent
	var section []string // that is open
	for _, s := range list {
		path := strings.Split(s.Name, ".")
		path, name := path[:len(path)-1], path[len(path)-1]
		same := 0
		for same < min(len(path), len(section)) && path[same] == section[same] {
			same++
		}
		for depth := same; depth < len(path); depth++ {
			p.indent = outer + strings.Repeat("  ", depth)
			p.line(path[depth] + ":")
		}
		section, p.indent = path, outer+strings.Repeat("  ", len(path))
		value := v.FieldByIndex(s.index)
		if s.elements() != nil && value.Len() > 0 {
			p.line(name + ":")
			p.list(&s, value)
			continue
		}
		text := name + ": " + yamlValue(value.Interface(), cmp.Or(s.tag.Get("secret"), s.tag.Get("mask")))
		if origin := p.c.origins[at+s.Name]; origin != "" {
			text += " # " + origin
		}
		p.line(text)
	}
	p.indent = outer
}

func (p *printer) list(s *Setting, v reflect.Value) {
	outer := p.indent
	p.indent += "    "
	for i := range v.Len() {
		p.dash = outer + "  - "
		p.settings(s.elements(), v.Index(i), fmt.Sprintf("%s[%d].", s.Name, i))
	}
	p.indent = outer
}

// yamlValue is a value on one line of YAML. hide says what of it is hidden:
// "url" the secrets in an address, "true" all of it.
func yamlValue(v any, hide string) string {
	if text, ok := v.(string); ok && text != "" {
		switch hide {
		case "url":
			v = MaskURL(text)
		case "true":
			v = "***"
		}
	}
	switch v := v.(type) {
	case []string:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = strconv.Quote(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case []Channel, []Key:
		return "[]"
	case string:
		text, err := yaml.Marshal(v)
		if err != nil {
			panic("config: a string that is not YAML: " + err.Error())
		}
		return strings.TrimSuffix(string(text), "\n")
	}
	return format(v)
}

// MaskURL hides what is secret in an address: the password before the last @,
// and every query value whose name speaks of one. A text without :// is hidden
// whole.
func MaskURL(address string) string {
	if address == "" {
		return ""
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return "***"
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, _, hasPassword := strings.Cut(rest[:i], ":")
		if hasPassword {
			user += ":***"
		}
		rest = user + rest[i:]
	}
	head, query, ok := strings.Cut(rest, "?")
	if !ok {
		return scheme + "://" + head
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		for _, word := range []string{"pass", "pwd", "secret", "token", "key"} {
			if strings.Contains(strings.ToLower(name), word) {
				pairs[i] = name + "=***"
			}
		}
	}
	return scheme + "://" + head + "?" + strings.Join(pairs, "&")
}
