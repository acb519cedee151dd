package api

import (
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Certificate is a certificate and its key in two PEM files. When they change
// the new ones are used for the connections that come, without a restart.
type Certificate struct {
	certFile, keyFile string
	log               func(message string, err error)

	mu     sync.Mutex // guards the following
	loaded *tls.Certificate
	files  files     // as they were when they were last read
	looked time.Time // when they were last looked at
}

// files are the two; nil when one could not be looked at.
type files []os.FileInfo

// same reports whether both are what they were. By time and size alone a file
// that takes another's place in the same moment would be overlooked.
func (f files) same(other files) bool {
	return slices.EqualFunc(f, other, func(a, b os.FileInfo) bool {
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
}

// lookEvery is how long a change of the files may go unnoticed.
const lookEvery = time.Second

// LoadCertificate reads a certificate. log is told when a new one is in use, and
// when the files hold none any more, while the old one stays in use.
func LoadCertificate(certFile, keyFile string, log func(message string, err error)) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, looked: time.Now()}
	var err error
	if c.files, err = c.look(); err != nil {
		return nil, err
	}
	if c.loaded, err = c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// TLS is the configuration of a server with this certificate: TLS 1.2 and later.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}
}

// get is the certificate for a connection that comes now.
func (c *Certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookEvery {
		return c.loaded
	}
	c.looked = time.Now()
	now, err := c.look() // before reading: a change meanwhile is seen next time
	if now.same(c.files) {
		return c.loaded // or both are nil: it was said
	}
	var loaded *tls.Certificate
	if err == nil {
		loaded, err = c.load()
	}
	if c.files = now; err != nil {
		c.log("tls: the certificate changed and cannot be read: the old one stays in use", err)
		return c.loaded
	}
	c.loaded = loaded
	c.log("tls: a new certificate is in use", nil)
	return c.loaded
}

func (c *Certificate) look() (files, error) {
	var f files
	for _, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		f = append(f, info)
	}
	return f, nil
}

func (c *Certificate) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	return &pair, nil
}
