package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// Every algorithm, from every source of keys.
// Holds G99.
func TestGoodTokens(t *testing.T) {
	set := map[string]crypto.PublicKey{"rsa": rsaKey.Public(), "ec": ecKey.Public(), "ed": edKey.Public()}
	for name, c := range map[string]struct {
		options JWT
		token   string
	}{
		"secret": {JWT{Secret: secret}, sign(jwt.SigningMethodHS256, []byte(secret), claim(nil), nil)},
		"RS256":  {JWT{PublicKeyFile: pemFile(t, rsaKey.Public())}, sign(jwt.SigningMethodRS256, rsaKey, claim(nil), nil)},
		"ES256":  {JWT{PublicKeyFile: pemFile(t, ecKey.Public())}, sign(jwt.SigningMethodES256, ecKey, claim(nil), nil)},
		"EdDSA":  {JWT{PublicKeyFile: pemFile(t, edKey.Public())}, sign(jwt.SigningMethodEdDSA, edKey, claim(nil), nil)},
		"set, RS256": {JWT{JWKSFile: write(t, jwks(set))},
			sign(jwt.SigningMethodRS256, rsaKey, claim(nil), map[string]any{"kid": "rsa"})},
		"set, ES256": {JWT{JWKSFile: write(t, jwks(set))},
			sign(jwt.SigningMethodES256, ecKey, claim(nil), map[string]any{"kid": "ec"})},
		"set, EdDSA": {JWT{JWKSFile: write(t, jwks(set))},
			sign(jwt.SigningMethodEdDSA, edKey, claim(nil), map[string]any{"kid": "ed"})},
		"set, no kid": {JWT{JWKSFile: write(t, jwks(set))}, sign(jwt.SigningMethodES256, ecKey, claim(nil), nil)},
		"a kid beside one key means nothing": {JWT{Secret: secret},
			sign(jwt.SigningMethodHS256, []byte(secret), claim(nil), map[string]any{"kid": "../../etc/passwd"})},
		"issuer and audience": {JWT{Secret: secret, Issuer: "https://id.example", Audience: "rejoin"},
			sign(jwt.SigningMethodHS256, []byte(secret), claim(jwt.MapClaims{"iss": "https://id.example", "aud": "rejoin"}), nil)},
		"several audiences": {JWT{Secret: secret, Audience: "rejoin"},
			sign(jwt.SigningMethodHS256, []byte(secret), claim(jwt.MapClaims{"aud": []string{"other", "rejoin"}}), nil)},
		"a clock that is a little ahead": {JWT{Secret: secret},
			sign(jwt.SigningMethodHS256, []byte(secret), claim(jwt.MapClaims{"nbf": time.Now().Add(5 * time.Second).Unix()}), nil)},
	} {
		t.Run(name, func(t *testing.T) {
			checker := newChecker(t, Options{JWT: &c.options})
			g, err := checker.Check(t.Context(), c.token)
			require.NoError(t, err)
			require.Equal(t, "anna", g.Name)
			require.True(t, g.MayRead("news.uk") && g.MayPublish("chat.a.b"))
			require.False(t, g.MayRead("chat.a") || g.MayPublish("news.uk") || g.IsAdmin() || g.Anonymous)
			require.WithinDuration(t, time.Now().Add(time.Hour), g.Expires, 10*time.Second)
		})
	}
}

// segment is a part of a token as it is written.
func segment(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }

// Tokens that are refused, with a secret.
// Holds G99.
func TestBadTokens(t *testing.T) {
	c := newChecker(t, Options{JWT: &JWT{Secret: secret, Issuer: "us", Audience: "rejoin"}, Anonymous: Rights{}})
	good := jwt.MapClaims{"iss": "us", "aud": "rejoin"}
	hs := func(key string, header map[string]any, others jwt.MapClaims) string {
		all := claim(good)
		for name, v := range others {
			if all[name] = v; v == nil {
				delete(all, name)
			}
		}
		return sign(jwt.SigningMethodHS256, []byte(key), all, header)
	}
	_, err := c.Check(t.Context(), hs(secret, nil, nil))
	require.NoError(t, err, "else nothing below says anything")

	now := time.Now()
	signed := strings.Split(hs(secret, nil, nil), ".")
	for name, tt := range map[string]struct{ token, reason string }{
		"alg none":            {must(jwt.NewWithClaims(jwt.SigningMethodNone, claim(good)).SignedString(jwt.UnsafeAllowNoneSignatureType)), "algorithm"},
		"alg None, by hand":   {segment(`{"alg":"None"}`) + "." + signed[1] + ".", "algorithm"},
		"no alg":              {segment(`{}`) + "." + signed[1] + "." + signed[2], "algorithm"},
		"alg is a number":     {segment(`{"alg":1}`) + "." + signed[1] + "." + signed[2], "algorithm"},
		"HS512":               {sign(jwt.SigningMethodHS512, []byte(secret), claim(good), nil), "algorithm"},
		"HS384":               {sign(jwt.SigningMethodHS384, []byte(secret), claim(good), nil), "algorithm"},
		"RS256":               {sign(jwt.SigningMethodRS256, rsaKey, claim(good), nil), "algorithm"},
		"another secret":      {hs("another secret of at least that size", nil, nil), "signature"},
		"no signature":        {signed[0] + "." + signed[1] + ".", "signature"},
		"claims changed":      {signed[0] + "." + segment(`{"exp":9999999999,"iss":"us","aud":"rejoin","rejoin":{"admin":true}}`) + "." + signed[2], "signature"},
		"two parts":           {signed[0] + "." + signed[1], "neither"},
		"five parts":          {strings.Join(signed, ".") + "..", "neither"},
		"not base64":          {"!." + signed[1] + "." + signed[2], "neither"},
		"header is no object": {segment(`[]`) + "." + signed[1] + "." + signed[2], "neither"},
		"claims are no JSON":  {signed[0] + "." + segment(`{`) + "." + signed[2], "neither"},
		"crit":                {hs(secret, map[string]any{"crit": []string{"b64"}, "b64": false}, nil), "crit"},
		"expired":             {hs(secret, nil, jwt.MapClaims{"exp": now.Add(-time.Second).Unix()}), "expired"},
		"expired long ago":    {hs(secret, nil, jwt.MapClaims{"exp": 1}), "expired"},
		"exp beyond all":      {hs(secret, nil, jwt.MapClaims{"exp": 1e300}), "exp cannot be read"},
		"exp before all":      {hs(secret, nil, jwt.MapClaims{"exp": -1e300}), "exp cannot be read"},
		"nbf beyond all":      {hs(secret, nil, jwt.MapClaims{"nbf": 1e300}), "nbf cannot be read"},
		"exp, another secret": {hs("another secret of at least that size", nil, jwt.MapClaims{"exp": 1e300}), "signature"},
		"no exp":              {hs(secret, nil, jwt.MapClaims{"exp": nil}), "lacks a claim"},
		"exp 0":               {hs(secret, nil, jwt.MapClaims{"exp": 0}), "lacks a claim"},
		"exp is a text":       {hs(secret, nil, jwt.MapClaims{"exp": "tomorrow"}), "RFC 7519"},
		"EXP":                 {hs(secret, nil, jwt.MapClaims{"exp": nil, "EXP": now.Add(time.Hour).Unix()}), "lacks a claim"},
		"not yet valid":       {hs(secret, nil, jwt.MapClaims{"nbf": now.Add(time.Minute).Unix()}), "not valid yet"},
		"nbf is a text":       {hs(secret, nil, jwt.MapClaims{"nbf": "now"}), "RFC 7519"},
		"another issuer":      {hs(secret, nil, jwt.MapClaims{"iss": "them"}), "iss"},
		"no issuer":           {hs(secret, nil, jwt.MapClaims{"iss": nil}), "lacks a claim"},
		"another audience":    {hs(secret, nil, jwt.MapClaims{"aud": "them"}), "aud"},
		"part of an audience": {hs(secret, nil, jwt.MapClaims{"aud": []string{"rejoin2", "re"}}), "aud"},
		"no audience":         {hs(secret, nil, jwt.MapClaims{"aud": nil}), "lacks a claim"},
		"rejoin is a list":    {hs(secret, nil, jwt.MapClaims{"rejoin": []string{"news.*"}}), "rejoin: want"},
		"read is a text":      {hs(secret, nil, jwt.MapClaims{"rejoin": map[string]any{"read": "**"}}), "rejoin.read: want"},
		"read has a number":   {hs(secret, nil, jwt.MapClaims{"rejoin": map[string]any{"read": []any{1}}}), "rejoin.read: want"},
		"not a pattern":       {hs(secret, nil, jwt.MapClaims{"rejoin": map[string]any{"publish": []any{"a.**.b"}}}), "rejoin.publish: want"},
		"admin is a text":     {hs(secret, nil, jwt.MapClaims{"rejoin": map[string]any{"admin": "true"}}), "rejoin.admin: want"},
	} {
		t.Run(name, func(t *testing.T) {
			reason := refused(t, c, tt.token)
			require.Contains(t, reason, tt.reason)
			for _, part := range strings.Split(tt.token, ".") {
				if len(part) > 3 {
					require.NotContains(t, reason, part)
				}
			}
		})
	}
}

// Claims are taken by their exact names, and without rejoin nothing is allowed.
// Holds G99.
func TestClaimsByTheirExactNames(t *testing.T) {
	c := newChecker(t, Options{JWT: &JWT{Secret: secret}})
	for _, other := range []jwt.MapClaims{
		{"rejoin": nil},
		{"rejoin": nil, "Rejoin": map[string]any{"read": []string{"**"}, "admin": true}},
		{"rejoin": map[string]any{"Read": []string{"**"}, "PUBLISH": []string{"**"}, "Admin": true, "more": 1}},
		{"rejoin": map[string]any{"read": nil, "publish": []string{}, "admin": false}},
	} {
		g, err := c.Check(t.Context(), sign(jwt.SigningMethodHS256, []byte(secret), claim(other), nil))
		require.NoError(t, err)
		require.False(t, g.MayRead("news.uk") || g.MayPublish("chat.a") || g.IsAdmin())
	}
	g, err := c.Check(t.Context(), sign(jwt.SigningMethodHS256, []byte(secret), claim(jwt.MapClaims{"rejoin": map[string]any{"admin": true}}), nil))
	require.NoError(t, err)
	require.True(t, g.IsAdmin())
}

// A public key is never taken for a secret, whatever the token says.
// Holds G99.
func TestKeysAreNotConfused(t *testing.T) {
	file := pemFile(t, rsaKey.Public())
	text := must(readFile(file))
	set := map[string]crypto.PublicKey{"rsa": rsaKey.Public(), "ec": ecKey.Public()}
	fixed := newChecker(t, Options{JWT: &JWT{PublicKeyFile: file}})
	several := newChecker(t, Options{JWT: &JWT{JWKSFile: write(t, jwks(set))}})
	for name, token := range map[string]string{
		"HS256 with the file":          sign(jwt.SigningMethodHS256, text, claim(nil), map[string]any{"kid": "rsa"}),
		"HS256 with the modulus":       sign(jwt.SigningMethodHS256, rsaKey.N.Bytes(), claim(nil), map[string]any{"kid": "rsa"}),
		"HS256 with the empty secret":  sign(jwt.SigningMethodHS256, []byte{}, claim(nil), map[string]any{"kid": "rsa"}),
		"HS256 without a kid":          sign(jwt.SigningMethodHS256, text, claim(nil), nil),
		"the kid of a key of its kind": sign(jwt.SigningMethodES256, ecKey, claim(nil), map[string]any{"kid": "rsa"}),
		"PS256":                        sign(jwt.SigningMethodPS256, rsaKey, claim(nil), map[string]any{"kid": "rsa"}),
		"RS512":                        sign(jwt.SigningMethodRS512, rsaKey, claim(nil), map[string]any{"kid": "rsa"}),
		"its own key in the header": sign(jwt.SigningMethodES256, otherKey, claim(nil), map[string]any{
			"jwk": map[string]any{"kty": "EC"}, "jku": "http://127.0.0.1:1/jwks", "x5u": "http://127.0.0.1:1/", "kid": "ec",
		}),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, fixed, token)
			refused(t, several, token)
		})
	}
}

// Algorithms can be narrowed; only those that fit the key can be named.
// Holds G99.
func TestAlgorithmsArePinned(t *testing.T) {
	set := write(t, jwks(map[string]crypto.PublicKey{"rsa": rsaKey.Public(), "ec": ecKey.Public()}))
	c := newChecker(t, Options{JWT: &JWT{JWKSFile: set, Algorithms: []string{ES256}}})
	_, err := c.Check(t.Context(), sign(jwt.SigningMethodES256, ecKey, claim(nil), map[string]any{"kid": "ec"}))
	require.NoError(t, err)
	refused(t, c, sign(jwt.SigningMethodRS256, rsaKey, claim(nil), map[string]any{"kid": "rsa"}))
	for name, o := range map[string]JWT{
		"a secret with RS256":     {Secret: secret, Algorithms: []string{HS256, RS256}},
		"a set with HS256":        {JWKSFile: set, Algorithms: []string{RS256, HS256}},
		"a URL with HS256":        {JWKSURL: "https://id.example/", Algorithms: []string{HS256}},
		"an RSA key with ES256":   {PublicKeyFile: pemFile(t, rsaKey.Public()), Algorithms: []string{ES256}},
		"an RSA key with HS256":   {PublicKeyFile: pemFile(t, rsaKey.Public()), Algorithms: []string{HS256}},
		"none":                    {Secret: secret, Algorithms: []string{"none"}},
		"one that is not offered": {Secret: secret, Algorithms: []string{"HS512"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Options{JWT: &o})
			require.ErrorContains(t, err, "algorithms: ")
		})
	}
}

func TestSourcesAreChecked(t *testing.T) {
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	for want, o := range map[string]JWT{
		"exactly one of":                           {},
		"exactly one of secret":                    {Secret: secret, JWKSURL: "https://id.example"},
		"public_key_file: open":                    {PublicKeyFile: "/nowhere"},
		"is not PEM":                               {PublicKeyFile: write(t, "hello")},
		"holds a PRIVATE KEY":                      {PublicKeyFile: write(t, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")},
		"1024 bits":                                {PublicKeyFile: pemFile(t, small.Public())},
		"curve P-384":                              {PublicKeyFile: pemFile(t, p384.Public())},
		"jwks_file: open":                          {JWKSFile: "/nowhere"},
		"jwks_file: not a set":                     {JWKSFile: write(t, `{"kty":"RSA"}`)},
		"jwks_file: the set has no key":            {JWKSFile: write(t, `{"keys":[{"kty":"oct","k":"AAAA"}]}`)},
		"jwks_file: the set has no key for RS256,": {JWKSFile: write(t, jwks(map[string]crypto.PublicKey{"a": small.Public(), "b": p384.Public()}))},
		"larger than 1 MiB":                        {JWKSFile: write(t, strings.Repeat(" ", maxKeys+1))},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := New(Options{JWT: &o})
			require.ErrorContains(t, err, want)
		})
	}
}

// Whatever comes as a token, checking it neither panics nor allows anything.
// Holds G99.
func FuzzToken(f *testing.F) {
	c := must(New(Options{
		JWT:  &JWT{Secret: secret},
		Keys: []Key{{SHA256: hash("a key that is not guessed")}},
	}))
	// The same in each process that takes part.
	good := sign(jwt.SigningMethodHS256, []byte(secret), claim(jwt.MapClaims{"exp": 9999999999}), nil)
	f.Add(good[:len(good)-1])
	f.Add("a.b.c")
	f.Add(segment(`{"alg":"none"}`) + "." + segment(`{"exp":9999999999}`) + ".")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if token == good {
			return
		}
		if _, err := c.Check(t.Context(), token); err == nil && !strings.HasPrefix(token, good[:len(good)-1]) {
			t.Errorf("%q is taken", token)
		}
	})
}
