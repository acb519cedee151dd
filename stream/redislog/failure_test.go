package redislog_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/redislog"
	"rejoin/stream/redislog/redistest"
)

// Each way a living Redis refuses: the kind is the truth, the words of Redis are
// kept, nothing was appended, and the same log goes on once it is mended.
// Holds G56.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name       string
		hurt, mend func(s *redistest.Server)
		kind       error
		says       string
		reads      error // what a read says meanwhile; nil: it is served
	}{
		{
			name: "full",
			hurt: func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") },
			mend: func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "0") },
			kind: stream.ErrFull, says: "OOM",
		},
		{
			name: "a replica",
			hurt: func(s *redistest.Server) { s.Do("REPLICAOF", "127.0.0.1", "1") },
			mend: func(s *redistest.Server) { s.Do("REPLICAOF", "NO", "ONE") },
			kind: stream.ErrUnavailable, says: "READONLY",
		},
		{
			name: "a replica without its master",
			hurt: func(s *redistest.Server) {
				s.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
				s.Do("REPLICAOF", "127.0.0.1", "1")
			},
			mend: func(s *redistest.Server) { s.Do("REPLICAOF", "NO", "ONE") },
			kind: stream.ErrUnavailable, says: "MASTERDOWN", reads: stream.ErrUnavailable,
		},
		{
			name: "too few replicas",
			hurt: func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "1") },
			mend: func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "0") },
			kind: stream.ErrUnavailable, says: "NOREPLICAS",
		},
		{
			name: "keys not allowed",
			hurt: func(s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "resetkeys", "~other:*") },
			mend: func(s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "allkeys") },
			kind: stream.ErrBroken, says: "NOPERM", reads: stream.ErrBroken,
		},
		{
			name: "scripts not allowed",
			hurt: func(s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "-evalsha", "-eval") },
			mend: func(s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "+@all") },
			kind: stream.ErrBroken, says: "NOPERM",
		},
		{
			name: "the script is gone",
			hurt: func(s *redistest.Server) { s.Do("SCRIPT", "FLUSH") },
			mend: func(*redistest.Server) {},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, logs := start(t, 1)
			l := logs[0]
			publish(t, l, "a", "1")
			tt.hurt(s)
			_, err := l.Append(t.Context(), stream.Message{Channel: "a", Payload: "2"})
			if tt.kind == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, tt.kind) || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Fatalf("append: %v, want %v with %s", err, tt.kind, tt.says)
			}
			if _, err := l.Read(t.Context(), stream.Query{Channel: "a", Limit: 1}); !errors.Is(err, tt.reads) {
				t.Fatalf("read: %v, want %v", err, tt.reads)
			}
			tt.mend(s)
			if id := publish(t, l, "a", "3"); id.N != 2 {
				t.Fatalf("after it was mended comes %v", id)
			}
		})
	}
}

// Holds G65.
func TestPasswords(t *testing.T) {
	s := startServer(t)
	s.Do("ACL", "SETUSER", "app", "on", ">s:cret", "~*", "+@all")
	s.Do("ACL", "SETUSER", "default", "resetpass", ">hidden")
	if _, err := redislog.Open(t.Context(), redislog.Options{URL: s.URL()}); !errors.Is(err, stream.ErrBroken) || !strings.Contains(err.Error(), "NOAUTH") {
		t.Fatalf("without a password: %v", err)
	}
	if _, err := redislog.Open(t.Context(), redislog.Options{URL: "redis://app:wrong@" + s.Addr}); !errors.Is(err, stream.ErrBroken) || strings.Contains(err.Error(), "wrong@") {
		t.Fatalf("with a wrong password: %v", err)
	}
	right := open(t, redislog.Options{URL: "redis://app:s%3Acret@" + s.Addr + "/3"})
	publish(t, right, "a", "1")
	sess := listen(t, right)
	publish(t, right, "a", "2")
	if _, err := wait(t, sess, 5*time.Second); err != nil {
		t.Fatal(err)
	}
}

// The rights that the package's doc names are enough, and only those keys.
func TestLeastRights(t *testing.T) {
	s := startServer(t)
	s.Do("ACL", "SETUSER", "app", "on", ">p", "~rejoin:*", "+@connection", "+eval", "+evalsha", "+get", "+set", "+setnx", "+mget",
		"+exists", "+type", "+del", "+pexpire", "+time", "+scan", "+xadd", "+xtrim", "+xlen", "+xrange", "+xrevrange", "+xread", "+xinfo")
	l := open(t, redislog.Options{URL: "redis://app:p@" + s.Addr})
	sess := listen(t, l)
	var ids []stream.ID
	for range 3 {
		ids = append(ids, publish(t, l, "a", "x"))
	}
	if _, err := wait(t, sess, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := l.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	s.Do("DEL", l.SmallKey("a"))
	pages, err := sess.Read(t.Context(), []stream.Query{{Channel: "a", After: ids[1], Limit: 1}})
	if err != nil || pages[0].Err != nil || pages[0].Last != ids[2] {
		t.Fatal(pages, err)
	}
	if _, err := l.Channels(t.Context(), stream.ChannelQuery{Limit: 10}); err != nil {
		t.Fatal(err)
	}
	<-time.After(600 * time.Millisecond) // audits
	if _, err := sess.Read(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// A script of somebody else that does not end: Redis says BUSY after a while, and
// every call is answered in time.
// Holds G56.
func TestBusy(t *testing.T) {
	s, logs := start(t, 1, "--busy-reply-threshold", "200")
	l := logs[0]
	publish(t, l, "a", "1")
	sess := listen(t, l)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = s.TryDo("EVAL", "while true do end", 0) })
	err, took := waitOver(t, sess, 5*time.Second)
	if !errors.Is(err, stream.ErrUnavailable) || took > 1500*time.Millisecond {
		t.Fatalf("over after %v: %v", took, err)
	}
	if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrUnavailable) || !strings.Contains(err.Error(), "BUSY") {
		t.Fatalf("append: %v", err)
	}
	s.Do("SCRIPT", "KILL")
	wg.Wait()
	if id := publish(t, l, "a", "2"); id.N != 2 {
		t.Fatalf("then comes %v", id)
	}
}

// A server with too many clients hangs up after HELLO: surely nothing appended.
func TestTooManyClients(t *testing.T) {
	s := startServer(t)
	l := open(t, redislog.Options{URL: s.URL()})
	hold, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	for _, command := range []string{"CLIENT KILL TYPE normal SKIPME yes", "CONFIG SET maxclients 1"} {
		if _, err := fmt.Fprint(hold, command+"\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := hold.Read(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrUnavailable) {
			t.Fatalf("append: %v", err)
		}
	}
	if _, err := l.Listen(t.Context(), 0); !errors.Is(err, stream.ErrUnavailable) {
		t.Fatalf("listen: %v", err)
	}
}

// Loading a large file after a restart: unavailable, then all is there.
// Holds G56.
func TestLoading(t *testing.T) {
	s, logs := start(t, 1, "--enable-debug-command", "yes")
	l := logs[0]
	publish(t, l, "a", "1")
	s.Do("DEBUG", "POPULATE", 20000, "filler", 1000)
	dump := s.Save()
	s.Kill()
	if err := os.WriteFile(filepath.Join(s.Dir, "dump.rdb"), dump, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.RestartSlowly()
	}()
	var loading bool
	for {
		a, err := l.Append(t.Context(), stream.Message{Channel: "a", Payload: "2"})
		if err == nil {
			if a.ID.N != 2 {
				t.Errorf("then comes %v", a.ID)
			}
			break
		}
		if !errors.Is(err, stream.ErrUnavailable) {
			t.Errorf("while it loads: %v", err)
			break
		}
		loading = loading || strings.Contains(err.Error(), "LOADING")
	}
	<-done
	if !loading {
		t.Error("LOADING was never seen")
	}
}

// A call that finds nobody listening for its connection is bounded too.
func TestDialHangs(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close() // accepts by the kernel, never answers
	l := open(t, redislog.Options{URL: "redis://" + hole.Addr().String(), Timeout: 300 * time.Millisecond})
	var wg sync.WaitGroup
	start := time.Now()
	for range 100 { // more than run at a time
		wg.Go(func() {
			if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrUnavailable) {
				t.Errorf("append: %v", err)
			}
		})
	}
	wg.Wait()
	if d := time.Since(start); d > time.Second {
		t.Fatalf("100 calls of 300 ms took %v", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start = time.Now()
	if _, err := l.Read(ctx, stream.Query{Channel: "a", Limit: 1}); !errors.Is(err, stream.ErrUnavailable) || time.Since(start) > 250*time.Millisecond {
		t.Fatalf("a shorter context took %v: %v", time.Since(start), err)
	}
}

// Holds G65.
func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	s := redistest.Start(t)
	tlsPort := s.Port + 1
	s.Do("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", cert,
		"tls-auth-clients", "no", "tls-port", tlsPort)
	url := fmt.Sprintf("rediss://127.0.0.1:%d", tlsPort)
	if _, err := redislog.Open(t.Context(), redislog.Options{URL: url + "?skip_verify=maybe"}); err == nil {
		t.Fatal("skip_verify=maybe was taken")
	}
	unsafe := open(t, redislog.Options{URL: url + "?skip_verify=true"})
	publish(t, unsafe, "a", strings.Repeat("x", 100_000))
	sess := listen(t, unsafe)
	publish(t, unsafe, "a", "2")
	if marks, err := wait(t, sess, 5*time.Second); err != nil || marks[0].ID.N != 2 {
		t.Fatal(marks, err)
	}
	// An unknown certificate is no Redis of ours.
	strict := open(t, redislog.Options{URL: url})
	if _, err := strict.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("append: %v", err)
	}
}

// certificate makes a self-signed one for 127.0.0.1.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}
