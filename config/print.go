package config

import (
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
	var b strings.Builder
	c.writeYAML(&b, "", "", Settings(), reflect.ValueOf(c).Elem(), "")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeYAML writes the settings of one struct. The first line begins with
// first, the others with indent; origins are looked up under at.
func (c *Config) writeYAML(b *strings.Builder, first, indent string, list []Setting, v reflect.Value, at string) {
	section := ""
	for i, s := range list {
		lead := indent
		if i == 0 {
			lead = first
		}
		name := s.Name
		if in := s.Section(); in != "" {
			if in != section {
				fmt.Fprintf(b, "%s%s:\n", lead, in)
			}
			lead = indent + "  "
			name = strings.TrimPrefix(s.Name, in+".")
		}
		section = s.Section()
		value := v.FieldByIndex(s.index).Interface()
		if rules, ok := value.([]Channel); ok && len(rules) > 0 {
			fmt.Fprintf(b, "%s%s:\n", lead, name)
			for j := range rules {
				c.writeYAML(b, lead+"  - ", lead+"    ", ruleSettings(), reflect.ValueOf(rules[j]), fmt.Sprintf("channels[%d].", j))
			}
			continue
		}
		if s.Secret {
			value = MaskURL(value.(string))
		}
		fmt.Fprintf(b, "%s%s: %s", lead, name, yamlValue(value))
		if origin := c.origins[at+s.Name]; origin != "" {
			b.WriteString(" # " + origin)
		}
		b.WriteByte('\n')
	}
}

// yamlValue is a value on one line of YAML.
func yamlValue(v any) string {
	switch v := v.(type) {
	case []string:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = strconv.Quote(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case []Channel:
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
