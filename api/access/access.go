package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"
)

// MaxToken is the longest token that is looked at, in bytes.
const MaxToken = 16 << 10

// Options say who may do what.
type Options struct {
	Keys      []Key
	JWT       *JWT   // nil: no JSON Web Tokens
	Anonymous Rights // what anybody may do, with a token or without
	// Log is told when the set of keys can no longer be got, and when it can
	// again; nil: nobody is.
	Log func(message string, err error)
}

// Key is an API key: a long random text that a program sends as its token. It
// never runs out, so only its hash is kept.
type Key struct {
	Name   string
	SHA256 [sha256.Size]byte // of the key
	Rights Rights
}

// TokenError is a token that allows nothing. Its text is for the client and
// holds nothing of the token.
type TokenError struct{ Reason string }

func (e *TokenError) Error() string { return e.Reason }

// ErrNoKeys says that a token can be neither taken nor refused, since the set of
// keys to verify it with could not be got.
var ErrNoKeys = errors.New("access: the keys that verify tokens cannot be got")

// Checker makes grants of tokens. A nil Checker asks nobody.
type Checker struct {
	keys   []Key
	jwt    *verifier // nil: no JSON Web Tokens
	anyone Rights
}

// New makes a checker; the error names the option that is wrong by its name in
// [JWT]. Close lets go of what it holds.
func New(o Options) (*Checker, error) {
	c := &Checker{keys: o.Keys, anyone: o.Anonymous}
	if o.JWT != nil {
		var err error
		if c.jwt, err = newVerifier(*o.JWT, o.Log); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Close ends what keeps keys fresh.
func (c *Checker) Close() {
	if c != nil && c.jwt != nil {
		c.jwt.close()
	}
}

// Anonymous is the grant of a client without a token.
func (c *Checker) Anonymous() Grant {
	if c == nil {
		return Open()
	}
	return Grant{Anonymous: true, anyone: &c.anyone}
}

// Check is the grant of a client with this token. The error is a [*TokenError],
// or wraps [ErrNoKeys]. It waits, for patience at most, only when the token names
// a key that is not known yet.
func (c *Checker) Check(ctx context.Context, token string) (Grant, error) {
	if c == nil {
		return Open(), nil
	}
	switch {
	case token == "":
		return Grant{}, &TokenError{Reason: "the token is empty"}
	case len(token) > MaxToken:
		return Grant{}, &TokenError{Reason: fmt.Sprintf("the token is longer than %d bytes", MaxToken)}
	}
	g := Grant{anyone: &c.anyone}
	if key := c.key(token); key != nil {
		g.Name, g.own = key.Name, key.Rights
		return g, nil
	}
	if c.jwt == nil {
		return Grant{}, &TokenError{Reason: "the token is not a known API key"}
	}
	claims, err := c.jwt.verify(ctx, token, time.Now())
	if err != nil {
		return Grant{}, err
	}
	g.Name, g.own, g.Expires = claims.subject, claims.rights, claims.expires
	return g, nil
}

// key is the API key that the token is; nil: none. It looks at all of them,
// whichever fits, so that its time tells nothing.
func (c *Checker) key(token string) *Key {
	sum := sha256.Sum256([]byte(token))
	var found *Key
	for i := range c.keys {
		if subtle.ConstantTimeCompare(sum[:], c.keys[i].SHA256[:]) == 1 {
			found = &c.keys[i]
		}
	}
	return found
}
