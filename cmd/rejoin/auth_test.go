package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keySetting is auth.keys with one key that may do everything.
func keySetting(key string) string {
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf(`--auth-keys=[{name: all, sha256: %s, read: ["**"], publish: ["**"], admin: true}]`, hex.EncodeToString(sum[:]))
}

// tlsFiles writes a certificate for 127.0.0.1 and its key.
func tlsFiles(t *testing.T) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// No line that the whole program writes at the level that logs most holds a
// token, a key or a payload, with TLS and without. (That every route keeps them to
// itself is tested in api; here it is the settings, the start and net/http.)
// Holds G78.
func TestNoSecretInTheLog(t *testing.T) {
	const (
		apiKey    = "apikey-quetzal-0123456789"
		jwtSecret = "jwtsecret-ocelot-0123456789abcdef"
		payload   = "payload-capybara"
	)
	good, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"exp": time.Now().Add(time.Hour).Unix(), "sub": "subject-pangolin", "rejoin": map[string]any{"read": []string{"**"}},
	}).SignedString([]byte(jwtSecret))
	require.NoError(t, err)
	t.Setenv("REJOIN_AUTH_JWT_SECRET", jwtSecret)
	cert, key := tlsFiles(t)
	for scheme, args := range map[string][]string{"http": nil, "https": {"--tls-cert=" + cert, "--tls-key=" + key}} {
		p := start(t, append(args, "--log-level=debug", keySetting(apiKey))...)
		require.True(t, strings.HasPrefix(p.listen, scheme+"://"), p.listen)
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		client := &http.Client{Transport: transport}
		requests := 0
		for _, token := range []string{apiKey, good, apiKey + ";x", "%zz" + apiKey} {
			for _, c := range [][2]string{
				{"GET", "/v1/poll?channel=a"}, {"GET", "/v1/channels/a/messages?limit=1"}, {"GET", "/v1/channels?limit=1"},
				{"POST", "/v1/channels/a/messages?key=" + payload}, {"GET", "/v1/nothing?a=b"},
			} {
				for _, query := range []string{"", "&token=" + token} {
					r, err := http.NewRequestWithContext(t.Context(), c[0], p.listen+c[1]+query, strings.NewReader(payload))
					require.NoError(t, err)
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("Cookie", "rejoin_token="+token)
					res, err := client.Do(r)
					require.NoError(t, err)
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					requests++
				}
			}
		}
		// What is not HTTP, or not TLS.
		raw, err := net.Dial("tcp", strings.TrimPrefix(p.listen, scheme+"://"))
		require.NoError(t, err)
		_, _ = io.WriteString(raw, "GET /v1/sse?token="+apiKey+" HTTP/9\r\nAuthorization: Bearer "+apiKey+"\r\n\r\n")
		_, _ = io.Copy(io.Discard, raw)
		raw.Close()
		transport.CloseIdleConnections()

		p.signal(syscall.SIGTERM)
		code, rest := p.wait()
		require.Zero(t, code)
		log := strings.Join(p.lines, "\n") + "\n" + rest
		require.Equal(t, requests, strings.Count(log, `"message":"request"`), "every request is in the log")
		secrets := append(strings.Split(good, "."), apiKey, jwtSecret, "quetzal", "ocelot", "capybara", "pangolin", "token=")
		for line := range strings.Lines(log) {
			for _, secret := range secrets {
				require.NotContains(t, line, secret)
			}
		}
	}
}

// With auth a server may be reached from other machines, and says who may do
// what.
// Holds G75.
func TestServeWithAuth(t *testing.T) {
	p := start(t, "--listen=0.0.0.0:0", keySetting("k"), "--auth-anonymous-read=open.*", "--auth-jwt-secret=short")
	out := strings.Join(p.lines, "\n")
	assert.Contains(t, out, `"keys":1,"jwt":true,"anonymous_read":["open.*"],"anonymous_publish":[],`)
	assert.Contains(t, out, "auth: what is not for anybody needs a token")
	assert.Contains(t, out, "auth.jwt.secret has 5 bytes and can be guessed from any token: openssl rand -hex 32 makes one that cannot")
	assert.NotContains(t, out, "no auth")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.listen, "http://"))
	require.NoError(t, err)
	p.listen = "http://127.0.0.1:" + port
	status, body := p.publish("a", "x")
	assert.Equal(t, http.StatusUnauthorized, status, body)
	status, body = p.get(p.listen + "/v1/channels/open.a/messages")
	assert.Equal(t, http.StatusOK, status, body)
	status, body = p.get(p.listen + "/v1/channels/a/messages?token=k")
	assert.Equal(t, http.StatusOK, status, body)
	status, body = p.get(p.admin + "/metrics")
	assert.Equal(t, http.StatusOK, status, body)

	// auth.insecure opens the operators' listener, and nothing else.
	p = start(t, "--admin-listen=0.0.0.0:0", keySetting("k"), "--auth-insecure")
	out = strings.Join(p.lines, "\n")
	assert.Contains(t, out, "auth.insecure: everyone who can reach admin.listen sees metrics and profiles")
	status, body = p.publish("a", "x")
	assert.Equal(t, http.StatusUnauthorized, status, body)

	// Keys from an address that is away keep no server from starting.
	p = start(t, "--auth-jwt-jwks-url=http://127.0.0.1:1/jwks", "--auth-anonymous-read=**")
	status, body = p.get(p.listen + "/v1/channels/a/messages")
	assert.Equal(t, http.StatusOK, status, body)
}
