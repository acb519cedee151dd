package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// certificateFiles are two files for certificates of 127.0.0.1.
type certificateFiles struct {
	t    *testing.T
	cert string
	key  string
}

func newCertificateFiles(t *testing.T) certificateFiles {
	dir := t.TempDir()
	return certificateFiles{t, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
}

// make makes a certificate of that serial number.
func (f certificateFiles) make(serial int64) (cert, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(f.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(f.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// write writes a file in the way that is never seen half.
func (f certificateFiles) write(path string, text []byte) {
	require.NoError(f.t, os.WriteFile(path+".new", text, 0o600))
	require.NoError(f.t, os.Rename(path+".new", path))
}

func (f certificateFiles) writeBoth(serial int64) {
	cert, key := f.make(serial)
	f.write(f.cert, cert)
	f.write(f.key, key)
}

// now makes the next connection look at the files.
func (c *Certificate) now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Time{}
}

// A new certificate is used for the connections that come; what cannot be read
// is not, and is said once.
// Holds G102.
func TestCertificateIsReadAgain(t *testing.T) {
	files := newCertificateFiles(t)
	files.writeBoth(1)
	var told []string
	c, err := LoadCertificate(files.cert, files.key, func(message string, _ error) { told = append(told, message) })
	require.NoError(t, err)
	serial := func() int64 {
		c.now()
		pair, err := c.TLS().GetCertificate(nil)
		require.NoError(t, err)
		return pair.Leaf.SerialNumber.Int64()
	}
	require.EqualValues(t, 1, serial())
	require.Empty(t, told)

	files.writeBoth(2)
	require.EqualValues(t, 2, serial())
	require.EqualValues(t, 2, serial())
	const newOne, bad = "tls: a new certificate is in use", "tls: the certificate changed and cannot be read: the old one stays in use"
	require.Equal(t, []string{newOne}, told)

	// The certificate without its key, then the key.
	cert, key := files.make(3)
	files.write(files.cert, cert)
	require.EqualValues(t, 2, serial())
	require.EqualValues(t, 2, serial())
	files.write(files.key, key)
	require.EqualValues(t, 3, serial())
	require.Equal(t, []string{newOne, bad, newOne}, told)

	// No file at all for a while.
	require.NoError(t, os.Remove(files.cert))
	require.EqualValues(t, 3, serial())
	require.EqualValues(t, 3, serial())
	files.writeBoth(4)
	require.EqualValues(t, 4, serial())
	require.Equal(t, []string{newOne, bad, newOne, bad, newOne}, told)

	// The files are looked at once a second at most.
	files.writeBoth(5)
	c.mu.Lock()
	c.looked = time.Now()
	c.mu.Unlock()
	require.EqualValues(t, 4, c.get().Leaf.SerialNumber.Int64())
}

// Holds G102.
func TestCertificateIsChecked(t *testing.T) {
	files := newCertificateFiles(t)
	_, err := LoadCertificate(files.cert, files.key, nil)
	require.ErrorContains(t, err, "no such file")
	files.writeBoth(1)
	_, key := files.make(2)
	files.write(files.key, key)
	_, err = LoadCertificate(files.cert, files.key, nil)
	require.ErrorContains(t, err, "private key does not match")
}

// Over TLS, 1.2 and later, HTTP/2 is spoken with who knows it, and every
// transport works; a certificate that changes harms no stream.
// Holds G102.
func TestTLS(t *testing.T) {
	w := newWorld(t, Options{})
	files := newCertificateFiles(t)
	files.writeBoth(1)
	certificate, err := LoadCertificate(files.cert, files.key, func(string, error) {})
	require.NoError(t, err)
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := NewServer(w.api.Public, 0)
	server.TLSConfig = certificate.TLS()
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(socket, "", "") }()
	t.Cleanup(func() {
		w.broker.Close() // ends the streams
		_ = server.Close()
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	w.url = "https://" + socket.Addr().String()
	client := func(http2 bool) *http.Client {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!http2)
		protocols.SetHTTP2(http2)
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: protocols}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	for _, http2 := range []bool{false, true} {
		w.http = client(http2)
		resp, in := w.events("channel=a")
		require.Equal(t, http2, resp.ProtoMajor == 2)
		until(t, in, "event: rejoin.ready")
		files.writeBoth(2)
		certificate.now()
		w.http = client(http2)
		a := w.do("POST", "/v1/channels/a/messages", "over TLS")
		require.Equal(t, 201, a.StatusCode)
		require.EqualValues(t, 2, a.TLS.PeerCertificates[0].SerialNumber.Int64())
		until(t, in, "data: over TLS")
		require.Contains(t, w.do("GET", "/v1/poll?channel=a&lastEventId=earliest", "").body, "over TLS")
	}
	w.http = client(false)
	c, _, err := w.socket("channel=a&lastEventId=earliest")
	require.NoError(t, err)
	require.Equal(t, "over TLS", frame(t, c, "message")["payload"])
	require.NoError(t, c.Close(websocket.StatusNormalClosure, ""))

	_, err = tls.Dial("tcp", socket.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	require.ErrorContains(t, err, "protocol version")
}
