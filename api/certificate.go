package api

import (
	"crypto/tls"
	"fmt"
	"os"
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
	stamps [2]stamp  // of the files, when they were last read
	looked time.Time // when the stamps were last compared
}

// stamp tells one version of a file from another.
type stamp struct {
	modified time.Time
	size     int64
}

// lookEvery is how long a change of the files may go unnoticed.
const lookEvery = time.Second

// LoadCertificate reads a certificate. log is told when a new one is in use, and
// when the files hold none any more, while the old one stays in use.
func LoadCertificate(certFile, keyFile string, log func(message string, err error)) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, looked: time.Now()}
	var err error
	if c.stamps, err = c.look(); err != nil {
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
	stamps, err := c.look() // before reading: a change meanwhile is seen next time
	if err == nil && stamps == c.stamps {
		return c.loaded
	}
	if err != nil && c.stamps == [2]stamp{} {
		return c.loaded // it was said
	}
	var loaded *tls.Certificate
	if err == nil {
		loaded, err = c.load()
	}
	if c.stamps = stamps; err != nil {
		c.log("tls: the certificate changed and cannot be read: the old one stays in use", err)
		return c.loaded
	}
	c.loaded = loaded
	c.log("tls: a new certificate is in use", nil)
	return c.loaded
}

func (c *Certificate) look() (s [2]stamp, err error) {
	for i, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return [2]stamp{}, err
		}
		s[i] = stamp{info.ModTime(), info.Size()}
	}
	return s, nil
}

func (c *Certificate) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	return &pair, nil
}
