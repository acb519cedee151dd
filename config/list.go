package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// element is one of a list as written: only what it sets.
type element struct {
	line   int
	values map[string]any // by setting of the element
	lines  map[string]int // by setting of the element
}

// listFromText reads a list from an environment variable or a flag: the same
// YAML list as in the file, on one line if one likes.
func (s *Setting) listFromText(text string) ([]element, *Error) {
	node, fault := parseYAML([]byte(text))
	if fault != nil || node == nil {
		return nil, fault
	}
	return s.listFromNode(node)
}

// listFromNode reads a list. The error's Setting begins with the list's name.
func (s *Setting) listFromNode(node *yaml.Node) ([]element, *Error) {
	if node.Kind != yaml.SequenceNode {
		return nil, &Error{Setting: s.Name, line: node.Line, Problem: "want a list, such as " + s.tag.Get("example")}
	}
	settings := s.elements()
	var list []element
	for i, item := range node.Content {
		at := fmt.Sprintf("%s[%d]", s.Name, i)
		leaves, fault := flatten(item)
		if fault != nil {
			return nil, fault.under(at)
		}
		e := element{line: item.Line, values: map[string]any{}, lines: map[string]int{}}
		for _, leaf := range leaves {
			v, fault := leaf.value(settings)
			if fault != nil {
				return nil, fault.under(at)
			}
			if v != nil {
				e.values[leaf.name] = v
				e.lines[leaf.name] = leaf.node.Line
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// fill sets what the element says in a struct of the list's type.
func (e *element) fill(into any) {
	v := reflect.ValueOf(into).Elem()
	settings := listed()[reflect.SliceOf(v.Type())]
	for name, value := range e.values {
		v.FieldByIndex(find(settings, name).index).Set(reflect.ValueOf(value))
	}
}

// resolve makes the lists of their elements, and checks these beside each other.
func (c *Config) resolve(lists map[string][]element) error {
	for i, e := range lists["channels"] {
		ch := Channel{Retention: c.Retention, Payload: c.Limits.Payload}
		e.fill(&ch)
		match := fmt.Sprintf("channels[%d].match", i)
		if err := checkMatch(ch.Match); err != nil {
			return c.Fault(match, err.Error())
		}
		for j, before := range c.Channels {
			if before.Match == ch.Match || before.Match == "**" {
				return c.Fault(match, fmt.Sprintf("%q is never reached: channels[%d] is %q", ch.Match, j, before.Match))
			}
		}
		c.Channels = append(c.Channels, ch)
	}
	for i, e := range lists["auth.keys"] {
		var key Key
		e.fill(&key)
		at := fmt.Sprintf("auth.keys[%d]", i)
		if err := checkName(key.Name); err != nil {
			return c.Fault(at+".name", err.Error())
		}
		if err := checkSHA256(key.SHA256); err != nil {
			return c.Fault(at+".sha256", err.Error())
		}
		if len(key.Publish)+len(key.Read) == 0 && !key.Admin {
			return c.Fault(at+".read", "this key allows nothing: give it read, publish or admin")
		}
		for j, before := range c.Auth.Keys {
			if before.Name == key.Name {
				return c.Fault(at+".name", fmt.Sprintf("%q is the name of auth.keys[%d] too", key.Name, j))
			}
			if strings.EqualFold(before.SHA256, key.SHA256) {
				return c.Fault(at+".sha256", fmt.Sprintf("auth.keys[%d] is the same key", j))
			}
		}
		c.Auth.Keys = append(c.Auth.Keys, key)
	}
	return nil
}
