//go:build linux

package e2e

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rejoin/stream/redislog/redistest"
)

// A proxy is a program that runs a file of deploy, with other addresses.
type proxy struct {
	name        string
	open, https string // addresses
	tls         *tls.Config
}

// Behind nginx and HAProxy, as deploy has them: events come at once on each
// transport, signs of life pass, and nobody misses anything while the server
// behind the proxy is killed and started again, a browser's EventSource neither.
// Holds G106.
func TestProxies(t *testing.T) {
	redis := redistest.Start(t)
	args := []string{"--redis-url", redis.URL(), "--cors-origins", "*", "--retry-min", "100ms", "--retry-max", "300ms"}
	s, other := serve(t, plain, args...), serve(t, plain, args...)
	dir, cert := t.TempDir(), certificate(t)
	for _, p := range []*proxy{nginx(t, dir, cert, s.url), haproxy(t, dir, cert, s.url)} {
		t.Run(p.name, func(t *testing.T) { behind(t, p, s, other) })
	}
}

func behind(t *testing.T, p *proxy, s, other *server) {
	const messages = 60
	channel := p.name
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: p.tls.Clone(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	h2 := &http.Client{Transport: transport}
	res, err := h2.Get(p.https + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
		t.Fatalf("/healthz: %s over %s", res.Status, res.Proto)
	}

	browser := newAccount("Chromium's EventSource behind " + p.name)
	chromium(t, p.open+"/v1/sse?channel="+channel, browser.take)
	browser.waitTold(t, "state live", 1, patience)

	// Event streams and polls by HTTP/2, a WebSocket by TLS, and all again without.
	var crowd []*traveller
	var travelling sync.WaitGroup
	defer travelling.Wait()
	defer cancel()
	for i, name := range []string{"event stream", "long-poll", "WebSocket"} {
		for _, at := range []string{p.https, p.open} {
			c := newTraveller(name+" at "+at, channel)
			c.extra = []string{"heartbeat", "5s"}
			if at == p.https {
				c.web, c.tls = h2, p.tls
			}
			crowd = append(crowd, c)
			travelling.Go(func() {
				for ctx.Err() == nil {
					_ = transports[i](ctx, c, at) // how it ends is seen by what comes
					select {
					case <-time.After(100 * time.Millisecond): // between two tries
					case <-ctx.Done():
					}
				}
			})
		}
	}
	for _, c := range crowd {
		select {
		case <-c.placed:
		case <-ctx.Done():
			t.Fatalf("%s: no position", c.name)
		}
	}

	// At once: of three messages, one by one, the fastest within a second.
	for n := 1; n <= 3; n++ {
		begun := time.Now()
		put(t, other, channel, strconv.Itoa(n))
		eventually(t, "a message at all clients", func() bool {
			for _, c := range crowd {
				if !c.has(n) {
					return false
				}
			}
			return browser.newest() >= n
		})
		if took := time.Since(begun); took < time.Second {
			t.Logf("message %d came to all within %v", n, took)
			break
		} else if n == 3 {
			t.Errorf("a message takes %v: something holds it back", took)
		}
	}
	sent := browser.newest()

	// Signs of life, in silence, on an event stream and on WebSockets.
	signOfLife(t, h2, p.https+"/v1/sse?heartbeat=5s&channel="+channel)
	signOfLife(t, streams, p.open+"/v1/sse?heartbeat=5s&channel="+channel)
	eventually(t, "a ping", func() bool {
		for _, c := range crowd[4:] {
			c.mu.Lock()
			pings := c.pings
			c.mu.Unlock()
			if pings == 0 {
				return false
			}
		}
		return true
	})

	// The server dies; its proxy says so, but not to an EventSource.
	s.kill()
	eventually(t, "an answer 502 or 503", func() bool {
		status, _ := get(t, h2, p.https+"/healthz")
		return status == http.StatusBadGateway || status == http.StatusServiceUnavailable
	})
	eventually(t, "an empty event stream instead", func() bool {
		status, head := get(t, h2, p.https+"/v1/sse?channel="+channel)
		if status == http.StatusOK && (head.Get("Content-Type") != "text/event-stream" || head.Get("Access-Control-Allow-Origin") != "https://a.example") {
			t.Fatalf("the answer's head: %v", head)
		}
		return status == http.StatusOK
	})
	eventually(t, "the browser to have noticed", func() bool { return browser.count("error") > 0 })
	for n := sent + 1; n <= messages; n++ {
		put(t, other, channel, strconv.Itoa(n))
		if n == messages/2 {
			s.restart()
		}
	}
	eventually(t, "all messages at all clients", func() bool {
		for _, c := range crowd {
			if !c.has(messages) {
				return false
			}
		}
		return true
	})
	browser.waitFor(t, messages)
	browser.settle(t, messages)
	for _, c := range crowd {
		for _, fault := range c.faults {
			t.Error(fault)
		}
	}
}

// get is the status and head of an answer to a page of another origin.
func get(t *testing.T, client *http.Client, url string) (int, http.Header) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://a.example")
	res, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header
}

// signOfLife waits for a heartbeat of an event stream: a line with a colon alone.
func signOfLife(t *testing.T, client *http.Client, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if lines.Text() == ":" {
			return
		}
	}
	t.Errorf("no sign of life at %s", url)
}

// nginx runs deploy/nginx.conf in front of a server.
func nginx(t *testing.T, dir string, cert []byte, server string) *proxy {
	t.Helper()
	p := &proxy{name: "nginx", open: freeAddress(t), https: freeAddress(t)}
	pemFile := filepath.Join(dir, "nginx.pem")
	config := filepath.Join(dir, "nginx.conf")
	write(t, pemFile, cert)
	write(t, config, []byte(replaced(t, "../../deploy/nginx.conf",
		"user www-data;", "",
		"127.0.0.1:8080", strings.TrimPrefix(server, "http://"),
		"listen 80;", "listen "+p.open+";",
		"listen 443 ssl", "listen "+p.https+" ssl",
		"/etc/ssl/certs/rejoin.pem", pemFile,
		"/etc/ssl/private/rejoin.key", pemFile,
		"/var/log/nginx/access.log", filepath.Join(dir, "access.log"),
		"worker_rlimit_nofile 131072;", "worker_rlimit_nofile 4096;", // what a test may
		"worker_connections 65536;", "worker_connections 2048;",
	)))
	p.run(t, cert, "nginx", "-p", dir, "-e", "stderr", "-c", config, "-g", "daemon off; pid "+filepath.Join(dir, "nginx.pid")+";")
	return p
}

// haproxy runs deploy/haproxy.cfg in front of a server.
func haproxy(t *testing.T, dir string, cert []byte, server string) *proxy {
	t.Helper()
	p := &proxy{name: "haproxy", open: freeAddress(t), https: freeAddress(t)}
	away, err := filepath.Abs("../../deploy/away.http")
	if err != nil {
		t.Fatal(err)
	}
	pemFile := filepath.Join(dir, "haproxy.pem")
	config := filepath.Join(dir, "haproxy.cfg")
	write(t, pemFile, cert)
	write(t, config, []byte(replaced(t, "../../deploy/haproxy.cfg",
		"127.0.0.1:8080", strings.TrimPrefix(server, "http://"),
		"bind :80", "bind "+p.open,
		"bind :443", "bind "+p.https,
		"/etc/ssl/private/rejoin.pem", pemFile,
		"/etc/haproxy/away.http", away,
		"maxconn 65536", "maxconn 1024", // what a test may
	)))
	p.run(t, cert, "haproxy", "-db", "-f", config)
	return p
}

// run starts the program, waits until it listens, and makes the addresses URLs.
func (p *proxy) run(t *testing.T, cert []byte, program string, args ...string) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cert) {
		t.Fatal("the test's certificate cannot be read")
	}
	p.tls = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program // where Debian has it, which is not in everyone's PATH
	}
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; scripts/test installs what this needs", err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-over
		if t.Failed() {
			t.Logf("%s said:\n%s", program, said.String())
		}
	})
	eventually(t, program+" to listen", func() bool {
		select {
		case <-over:
			t.Fatalf("%s ended:\n%s", program, said.String())
		default:
		}
		conn, err := net.Dial("tcp", p.https)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	p.open, p.https = "http://"+p.open, "https://"+p.https
}

// replaced is a file with words replaced, each of which must be in it.
func replaced(t *testing.T, path string, pairs ...string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s has no %q", path, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate makes a certificate for 127.0.0.1, and its key, as PEM.
func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
}
