package config

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// leaf is one value of the file under its dotted name: a scalar, a list, or a
// section without anything in it.
type leaf struct {
	name string
	node *yaml.Node
}

// maxDepth is deeper than any setting stands; it also ends aliases that hold
// themselves.
const maxDepth = 6

// maxLeaves is more than anybody writes; it ends aliases that multiply.
const maxLeaves = 10_000

// parseYAML returns the document's one value, nil if there is none.
func parseYAML(text []byte) (*yaml.Node, *Error) {
	var doc, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&doc); {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, &Error{Problem: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if err := decoder.Decode(&second); err != io.EOF {
		return nil, &Error{line: second.Line, Problem: "a second YAML document (---): write all settings in one"}
	}
	if doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil
}

// flatten lists the leaves of a mapping in the order they are written. Dotted
// and nested keys are the same; a name given twice is an error.
func flatten(node *yaml.Node) ([]leaf, *Error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		return nil, &Error{line: node.Line, Problem: "want settings, each as name: value"}
	}
	var out []leaf
	lines := map[string]int{}
	var walk func(node *yaml.Node, prefix string, depth int) *Error
	walk = func(node *yaml.Node, prefix string, depth int) *Error {
		for i := 0; i < len(node.Content); i += 2 {
			key, v := node.Content[i], node.Content[i+1]
			name := prefix + key.Value
			if v.Kind == yaml.AliasNode {
				v = v.Alias
			}
			if v.Kind == yaml.MappingNode && len(v.Content) > 0 && depth < maxDepth {
				if err := walk(v, name+".", depth+1); err != nil {
					return err
				}
				continue
			}
			if line, twice := lines[name]; twice {
				return &Error{Setting: name, line: key.Line, Problem: fmt.Sprintf("given twice, first in line %d", line)}
			}
			if len(out) == maxLeaves {
				return &Error{Setting: name, line: key.Line, Problem: fmt.Sprintf("more than %d settings", maxLeaves)}
			}
			lines[name] = key.Line
			at := *v
			at.Line = key.Line // of a list: where its name stands
			out = append(out, leaf{name, &at})
		}
		return nil
	}
	return out, walk(node, "", 0)
}

// value is the leaf's value by the setting of that name among list, checked;
// nil for a section left empty. A list of elements is an []element.
func (l leaf) value(list []Setting) (any, *Error) {
	fault := func(problem string) (any, *Error) {
		return nil, &Error{Setting: l.name, line: l.node.Line, Problem: problem}
	}
	s := find(list, l.name)
	if s == nil {
		if isSection(list, l.name) {
			if l.node.Tag == "!!null" || l.node.Kind == yaml.MappingNode {
				return nil, nil
			}
			return fault("is a section: its settings stand below it, each as name: value")
		}
		return fault(unknown(l.name, list))
	}
	switch {
	case l.node.Tag == "!!null":
		return fault(`has no value: leave it out for the default, or write "" for an empty text`)
	case s.elements() != nil:
		list, err := s.listFromNode(l.node)
		if err != nil {
			return nil, err
		}
		return list, nil
	case l.node.Kind == yaml.SequenceNode && s.typ == reflect.TypeFor[[]string]():
		var items []string
		for _, item := range l.node.Content {
			if item.Kind != yaml.ScalarNode {
				return fault("want a list of texts")
			}
			items = append(items, item.Value)
		}
		if err := s.check(items); err != nil {
			return fault(err.Error())
		}
		return items, nil
	case l.node.Kind != yaml.ScalarNode:
		return fault("want one value")
	}
	v, err := s.value(l.node.Value)
	if err != nil {
		return fault(err.Error())
	}
	return v, nil
}

// value is the setting's value from a text, checked.
func (s *Setting) value(text string) (any, error) {
	v, err := parse(s.typ, text)
	if err != nil {
		return nil, err
	}
	return v, s.check(v)
}

// under puts the name of what holds the setting before it.
func (e *Error) under(name string) *Error {
	switch {
	case e.Setting == "":
		e.Setting = name
	default:
		e.Setting = name + "." + e.Setting
	}
	return e
}
