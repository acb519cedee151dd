package config

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// rule is one element of channels as written: only what it sets.
type rule struct {
	values map[string]any // by setting of the rule
	lines  map[string]int // by setting of the rule
}

// rulesFromText reads channels from an environment variable or a flag: the same
// YAML list as in the file, on one line if one likes.
func rulesFromText(text string) ([]rule, *Error) {
	node, fault := parseYAML([]byte(text))
	if fault != nil || node == nil {
		return nil, fault
	}
	return rulesFromNode(node)
}

// rulesFromNode reads the rules. The error's Setting begins with channels.
func rulesFromNode(node *yaml.Node) ([]rule, *Error) {
	if node.Kind != yaml.SequenceNode {
		return nil, &Error{Setting: "channels", line: node.Line,
			Problem: `want a list of rules, such as [{match: "quotes.**", rewind: 1}]`}
	}
	var rules []rule
	for i, element := range node.Content {
		at := fmt.Sprintf("channels[%d]", i)
		leaves, fault := flatten(element)
		if fault != nil {
			return nil, fault.under(at)
		}
		r := rule{values: map[string]any{}, lines: map[string]int{"match": element.Line}}
		for _, leaf := range leaves {
			v, fault := leaf.value(ruleSettings())
			if fault != nil {
				return nil, fault.under(at)
			}
			if v != nil {
				r.values[leaf.name] = v
				r.lines[leaf.name] = leaf.node.Line
			}
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// resolve fills in what each rule left out and checks that each can be reached.
func (c *Config) resolve(rules []rule) error {
	for i, r := range rules {
		ch := Channel{Retention: c.Retention, Payload: c.Limits.Payload}
		for name, v := range r.values {
			reflect.ValueOf(&ch).Elem().FieldByIndex(find(ruleSettings(), name).index).Set(reflect.ValueOf(v))
		}
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
	return nil
}
