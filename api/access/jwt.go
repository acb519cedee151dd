package access

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"rejoin/stream"
)

// JWT says which JSON Web Tokens are good. Exactly one of Secret, PublicKeyFile,
// JWKSFile and JWKSURL is set.
type JWT struct {
	Secret        string // of HS256
	PublicKeyFile string // PEM: a public key or a certificate
	JWKSFile      string // RFC 7517
	JWKSURL       string
	// Algorithms that are taken; empty: all that fit the keys. A secret is never
	// used with an algorithm of public keys, nor the other way round.
	Algorithms []string
	// Issuer and Audience must be the token's iss, and among its aud; "": not
	// looked at.
	Issuer, Audience string
}

// The algorithms (RFC 7518, section 3.1, and RFC 8037).
const (
	HS256 = "HS256"
	RS256 = "RS256"
	ES256 = "ES256"
	EdDSA = "EdDSA"
)

// ShortSecret is the length below which a secret of HS256 can be guessed from
// any token made with it (RFC 7518, section 3.2).
const ShortSecret = 32

// nbfLeeway is how far the clock of who makes tokens may be ahead. There is no
// such for exp: a token is good to the second it names.
const nbfLeeway = 10 * time.Second

// mostSeconds is more than any moment that exp or nbf can mean, and less than
// what an int64 holds: the parser would turn what is beyond into some other one.
const mostSeconds = 1 << 62

// verifier verifies tokens.
type verifier struct {
	parser *jwt.Parser
	key    func(context.Context) jwt.Keyfunc
	set    *keySet // nil: the key does not change
}

// claims are what of a token's is used.
type claims struct {
	subject string
	expires time.Time
	rights  Rights
}

func newVerifier(o JWT, log func(string, error)) (*verifier, error) {
	v := &verifier{}
	var fitting []string
	fixed := func(key any) {
		v.key = func(context.Context) jwt.Keyfunc {
			return func(*jwt.Token) (any, error) { return key, nil }
		}
	}
	sources := 0
	for _, s := range []string{o.Secret, o.PublicKeyFile, o.JWKSFile, o.JWKSURL} {
		if s != "" {
			sources++
		}
	}
	var source func(context.Context) ([]byte, error)
	every := time.Duration(0)
	switch {
	case sources != 1:
		return nil, errors.New("want exactly one of secret, public_key_file, jwks_file and jwks_url")
	case o.Secret != "":
		fixed([]byte(o.Secret))
		fitting = []string{HS256}
	case o.PublicKeyFile != "":
		key, algorithm, err := readPublicKey(o.PublicKeyFile)
		if err != nil {
			return nil, fmt.Errorf("public_key_file: %w", err)
		}
		fixed(key)
		fitting = []string{algorithm}
	case o.JWKSFile != "":
		source, every = fromFile(o.JWKSFile), fileEvery
		if text, err := source(context.Background()); err != nil {
			return nil, fmt.Errorf("jwks_file: %w", err)
		} else if _, err = parseSet(text); err != nil {
			return nil, fmt.Errorf("jwks_file: %w", err)
		}
		fitting = []string{RS256, ES256, EdDSA}
	default:
		source, every = fromURL(o.JWKSURL), urlEvery
		fitting = []string{RS256, ES256, EdDSA}
	}
	algorithms := o.Algorithms
	if len(algorithms) == 0 {
		algorithms = fitting
	}
	for _, a := range algorithms {
		if !slices.Contains(fitting, a) {
			return nil, fmt.Errorf("algorithms: %q does not fit the key, which takes %q", a, fitting)
		}
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms), jwt.WithLeeway(nbfLeeway), jwt.WithIssuer(o.Issuer),
	}
	if o.Audience != "" {
		options = append(options, jwt.WithAudience(o.Audience))
	}
	v.parser = jwt.NewParser(options...)
	if source != nil {
		v.set = newKeySet(source, every, log)
		v.key = v.set.keyfunc
	}
	return v, nil
}

func (v *verifier) close() {
	if v.set != nil {
		v.set.close()
	}
}

// verify reads a token that is good at a moment. What a token's header says of
// where its key is to be found (jku, jwk, x5u, x5c) is never looked at.
func (v *verifier) verify(ctx context.Context, text string, now time.Time) (claims, error) {
	members := jwt.MapClaims{} // a map: names are taken as they are, in no other case
	token, err := v.parser.ParseWithClaims(text, members, v.key(ctx))
	if err == nil || errors.Is(err, jwt.ErrTokenInvalidClaims) { // it is signed
		for _, name := range []string{"exp", "nbf"} {
			if s, ok := members[name].(float64); ok && math.Abs(s) > mostSeconds {
				return claims{}, &TokenError{Reason: "the token's " + name + " cannot be read: want seconds since 1970"}
			}
		}
	}
	if err != nil {
		return claims{}, refusal(err)
	}
	if _, ok := token.Header["crit"]; ok {
		// RFC 7515, section 4.1.11: what is not understood must be refused.
		return claims{}, &TokenError{Reason: "the token's header has crit, and nothing of that is understood"}
	}
	// The parser does not miss exp, and looks at it with a leeway.
	expires, err := members.GetExpirationTime()
	if err != nil || expires == nil {
		return claims{}, refusal(jwt.ErrTokenRequiredClaimMissing)
	}
	if !now.Before(expires.Time) {
		return claims{}, refusal(jwt.ErrTokenExpired)
	}
	c := claims{expires: expires.Time}
	c.subject, _ = members["sub"].(string)
	if c.rights, err = readRights(members["rejoin"]); err != nil {
		return claims{}, &TokenError{Reason: "the token's claim " + err.Error()}
	}
	return c, nil
}

// refusal says in our words why a token is refused: the library's may hold parts
// of it.
func refusal(err error) error {
	if errors.Is(err, ErrNoKeys) {
		return ErrNoKeys
	}
	for _, c := range []struct {
		is     error
		reason string
	}{
		{jwt.ErrTokenMalformed, "the token is neither a known API key nor a JWT"},
		{errUnknownKey, "the token is not signed with a key known here"},
		{jwt.ErrTokenSignatureInvalid, "the token's signature, or its algorithm, is not good here"},
		{jwt.ErrTokenUnverifiable, "the token's algorithm is not good here"},
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet: look at the clock of who made it"},
		{jwt.ErrTokenInvalidIssuer, "the token's iss is another than this server wants"},
		{jwt.ErrTokenInvalidAudience, "the token's aud is another than this server wants"},
		{jwt.ErrTokenRequiredClaimMissing, "the token lacks a claim: exp is wanted, and iss and aud if this server looks at them"},
	} {
		if errors.Is(err, c.is) {
			return &TokenError{Reason: c.reason}
		}
	}
	return &TokenError{Reason: "the token's claims are not as RFC 7519 says"}
}

// readRights reads the claim rejoin; nil is no rights.
func readRights(claim any) (Rights, error) {
	if claim == nil {
		return Rights{}, nil
	}
	members, ok := claim.(map[string]any)
	if !ok {
		return Rights{}, errors.New(`rejoin: want an object, as in {"read":["news.**"]}`)
	}
	var r Rights
	var err error
	if r.Read, err = readPatterns(members["read"]); err != nil {
		return Rights{}, fmt.Errorf("rejoin.read: %w", err)
	}
	if r.Publish, err = readPatterns(members["publish"]); err != nil {
		return Rights{}, fmt.Errorf("rejoin.publish: %w", err)
	}
	if admin := members["admin"]; admin != nil {
		if r.Admin, ok = admin.(bool); !ok {
			return Rights{}, errors.New("rejoin.admin: want true or false")
		}
	}
	return r, nil
}

var errPatterns = errors.New(`want a list of patterns, as in ["news.*","chat.**"]`)

func readPatterns(claim any) ([]stream.Pattern, error) {
	if claim == nil {
		return nil, nil
	}
	list, ok := claim.([]any)
	if !ok {
		return nil, errPatterns
	}
	patterns := make([]stream.Pattern, len(list))
	for i, item := range list {
		text, ok := item.(string)
		if !ok {
			return nil, errPatterns
		}
		p, err := stream.ParsePattern(text)
		if err != nil {
			return nil, errPatterns // the pattern is a part of the token
		}
		patterns[i] = p
	}
	return patterns, nil
}
