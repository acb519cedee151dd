package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// checks are the functions that the tag check names. Each judges one value; a
// list is judged element by element.
var checks = map[string]func(string) error{
	"address": checkAddress,
	"prefix":  checkPrefix,
	"origins": checkOrigin,
	"match":   checkMatch,
	"name":    checkName,
	"sha256":  checkSHA256,
	"url":     checkURL,
}

// check judges a value by the tags of its setting.
func (s *Setting) check(v any) error {
	texts, _ := v.([]string)
	if text, ok := v.(string); ok {
		texts = []string{text}
	}
	for _, text := range texts {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("holds a line break or another control character")
		}
	}
	if words := strings.Fields(s.tag.Get("oneof")); len(words) > 0 {
		for _, text := range texts {
			if !slices.Contains(words, text) {
				return fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
			}
		}
	}
	if f := checks[s.tag.Get("check")]; f != nil {
		for _, text := range texts {
			if err := f(text); err != nil {
				return err
			}
		}
	}
	if lo, hi := s.limits(); lo != nil {
		if n := reflect.ValueOf(v).Int(); n < reflect.ValueOf(lo).Int() || n > reflect.ValueOf(hi).Int() {
			return fmt.Errorf("%s is out of bounds: want %s to %s", format(v), format(lo), format(hi))
		}
	}
	return nil
}

// limits are the least and the greatest value allowed; nil if there are none.
func (s *Setting) limits() (lo, hi any) {
	if s.tag.Get("min") == "" {
		return nil, nil
	}
	lo, errLo := parse(s.typ, s.tag.Get("min"))
	hi, errHi := parse(s.typ, s.tag.Get("max"))
	if err := errors.Join(errLo, errHi); err != nil {
		panic("config: tags of " + s.Name + ": " + err.Error())
	}
	return lo, hi
}

func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not an address: write host:port, such as 127.0.0.1:8080", text)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q has no port number: want 0 to 65535, 0 for any free one", text)
	}
	return nil
}

// checkPrefix keeps braces out above all: they decide a key's slot in a cluster.
func checkPrefix(text string) error {
	safe := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.:-", r)
	}
	if text == "" || len(text) > 64 || strings.ContainsFunc(text, func(r rune) bool { return !safe(r) }) {
		return fmt.Errorf("%q will not do: want 1-64 characters of A-Z a-z 0-9 _ . : -", text)
	}
	return nil
}

func checkOrigin(text string) error {
	if text == "*" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != text || strings.Contains(u.Host, "*") {
		return fmt.Errorf("%q is not an origin: write scheme://host or scheme://host:port without a path, or * for all", text)
	}
	if text != strings.ToLower(text) {
		return fmt.Errorf("%q: browsers send origins in lower case: write %s", text, strings.ToLower(text))
	}
	return nil
}

func checkMatch(text string) error {
	if text == "" {
		return errors.New("is missing: say which channels the rule is for, such as quotes.**")
	}
	return nil
}

func checkName(text string) error {
	if text == "" {
		return errors.New("is missing: say whose key it is")
	}
	return nil
}

// checkSHA256 does not repeat the text: it may be the key itself.
func checkSHA256(text string) error {
	switch sum, err := hex.DecodeString(text); {
	case text == "":
		return errors.New("is missing: printf %s \"$KEY\" | sha256sum prints it")
	case err != nil || len(sum) != sha256.Size:
		return errors.New("want the 64 hex digits that printf %s \"$KEY\" | sha256sum prints, not the key itself")
	}
	return nil
}

// checkURL does not repeat the text: it may hold a password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		return errors.New("want an address that begins with https://")
	}
	return nil
}

// checkTogether judges settings beside each other.
func (c *Config) checkTogether() error {
	if c.Retry.Min > c.Retry.Max {
		return c.beside("retry.min", format(c.Retry.Min)+" is above retry.max, "+format(c.Retry.Max), "retry.max")
	}
	if c.Listen == c.Admin.Listen && !strings.HasSuffix(c.Listen, ":0") {
		return c.beside("admin.listen", "is the same address as listen, "+c.Listen+": choose another port", "listen")
	}
	if c.Redis.URL == "" && c.Memory.Bytes < c.LargestPayload() {
		return c.beside("memory.bytes", fmt.Sprintf("%s does not hold one message of the largest size allowed, %s",
			c.Memory.Bytes, c.LargestPayload()), "limits.payload")
	}
	if err := c.checkAuth(); err != nil {
		return err
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return c.beside("tls.key", "belongs to tls.cert: set both or neither", "tls.cert")
	}
	return nil
}

// checkAuth judges who may come in, and from where.
func (c *Config) checkAuth() error {
	jwt := &c.Auth.JWT
	first := ""
	for _, s := range []struct{ setting, value string }{
		{"auth.jwt.secret", jwt.Secret}, {"auth.jwt.public_key_file", jwt.PublicKeyFile},
		{"auth.jwt.jwks_file", jwt.JWKSFile}, {"auth.jwt.jwks_url", jwt.JWKSURL},
	} {
		switch {
		case s.value != "" && first != "":
			return c.Fault(s.setting, first+" is set too: choose one")
		case s.value != "":
			first = s.setting
		}
	}
	for _, s := range []struct {
		setting string
		set     bool
	}{
		{"auth.jwt.algorithms", len(jwt.Algorithms) > 0}, {"auth.jwt.issuer", jwt.Issuer != ""}, {"auth.jwt.audience", jwt.Audience != ""},
	} {
		if s.set && first == "" {
			return c.Fault(s.setting, "there is nothing to verify tokens with: set one of auth.jwt.secret, public_key_file, jwks_file and jwks_url")
		}
	}
	for _, name := range jwt.Algorithms {
		if secret := first == "auth.jwt.secret"; secret != (name == "HS256") {
			return c.Fault("auth.jwt.algorithms", name+" is not for "+first+": HS256 is for a secret, the others are for public keys")
		}
	}
	if c.Auth.Insecure {
		return nil
	}
	if !c.Auth.Set() && !Loopback(c.Listen) {
		return c.Fault("listen", c.Listen+" can be reached from other machines, and nothing says who may read and publish: "+
			"set auth.keys, auth.jwt or auth.anonymous, or listen on 127.0.0.1, or set auth.insecure: true if everyone there may do everything")
	}
	if !Loopback(c.Admin.Listen) {
		return c.Fault("admin.listen", c.Admin.Listen+" can be reached from other machines, and it asks nobody who they are: "+
			"listen on 127.0.0.1, or set auth.insecure: true if everyone there may see metrics and profiles")
	}
	return nil
}

// beside blames the first setting, at the source of whichever of both was set.
func (c *Config) beside(setting, problem, other string) error {
	source := c.origins[setting]
	if source == "" {
		source = c.origins[other]
	}
	return &Error{Source: source, Setting: setting, Problem: problem}
}

// LargestPayload is the most that a message of any channel may have.
func (c *Config) LargestPayload() Size {
	most := c.Limits.Payload
	for _, rule := range c.Channels {
		most = max(most, rule.Payload)
	}
	return most
}

// Loopback reports whether an address, host:port, can be reached from this
// machine alone. A name other than localhost is not trusted to be.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
