package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rejoin/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "0123456789abcdef0123456789abcdef"

// Keys of the tests; making one of RSA takes long.
var (
	rsaKey   = must(rsa.GenerateKey(rand.Reader, 2048))
	ecKey    = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	otherKey = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	edKey    = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// claim is a good set of claims with others added; nil takes one out.
func claim(others jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{
		"sub": "anna", "exp": time.Now().Add(time.Hour).Unix(),
		"rejoin": map[string]any{"read": []string{"news.*"}, "publish": []string{"chat.**"}},
	}
	maps.Copy(c, others)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// sign makes a token. header adds to its header.
func sign(method jwt.SigningMethod, key any, claims jwt.MapClaims, header map[string]any) string {
	t := jwt.NewWithClaims(method, claims)
	maps.Copy(t.Header, header)
	return must(t.SignedString(key))
}

func patterns(texts ...string) (ps []stream.Pattern) {
	for _, t := range texts {
		ps = append(ps, must(stream.ParsePattern(t)))
	}
	return ps
}

// pemFile writes a public key.
func pemFile(t *testing.T, key crypto.PublicKey) string {
	return write(t, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(key))})))
}

func write(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// jwks is a set of the keys by their kid; "" leaves it out.
func jwks(keys map[string]crypto.PublicKey) string {
	var set jwkset.JWKSMarshal
	for kid, key := range keys {
		jwk := must(jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid}}))
		set.Keys = append(set.Keys, jwk.Marshal())
	}
	return string(must(json.Marshal(set)))
}

func newChecker(t *testing.T, o Options) *Checker {
	t.Helper()
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// refused is the reason for which a token is.
func refused(t *testing.T, c *Checker, token string) string {
	t.Helper()
	g, err := c.Check(t.Context(), token)
	var bad *TokenError
	require.ErrorAs(t, err, &bad)
	require.False(t, g.MayRead("news.uk") || g.MayPublish("chat.a") || g.IsAdmin())
	return bad.Reason
}

func hash(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }
