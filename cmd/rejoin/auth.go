package main

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/rs/zerolog"

	"rejoin/api"
	"rejoin/api/access"
	"rejoin/config"
	"rejoin/stream"
)

// accessOptions puts the settings of who may do what into the words of access;
// nil if there are none. It checks what config cannot: patterns.
func accessOptions(c *config.Config) (*access.Options, error) {
	if !c.Auth.Set() {
		return nil, nil
	}
	o := &access.Options{}
	var err error
	for i, k := range c.Auth.Keys {
		at := fmt.Sprintf("auth.keys[%d].", i)
		key := access.Key{Name: k.Name, Rights: access.Rights{Admin: k.Admin}}
		sum, err := hex.DecodeString(k.SHA256)
		if err != nil || copy(key.SHA256[:], sum) != len(sum) {
			return nil, c.Fault(at+"sha256", "not a SHA-256 in hex") // config has looked
		}
		if key.Rights.Read, err = patterns(c, at+"read", k.Read); err != nil {
			return nil, err
		}
		if key.Rights.Publish, err = patterns(c, at+"publish", k.Publish); err != nil {
			return nil, err
		}
		o.Keys = append(o.Keys, key)
	}
	if c.Auth.JWT.Set() {
		jwt := access.JWT(c.Auth.JWT)
		o.JWT = &jwt
	}
	if o.Anonymous.Read, err = patterns(c, "auth.anonymous.read", c.Auth.Anonymous.Read); err != nil {
		return nil, err
	}
	o.Anonymous.Publish, err = patterns(c, "auth.anonymous.publish", c.Auth.Anonymous.Publish)
	return o, err
}

func patterns(c *config.Config, setting string, texts []string) ([]stream.Pattern, error) {
	var list []stream.Pattern
	for _, text := range texts {
		p, err := stream.ParsePattern(text)
		if err != nil {
			return nil, c.Fault(setting, err.Error())
		}
		list = append(list, p)
	}
	return list, nil
}

// newChecker makes what answers who may do what; nil: everyone may everything.
func newChecker(c *config.Config, log func(string, error)) (*access.Checker, error) {
	o, err := accessOptions(c)
	if o == nil {
		return nil, err
	}
	o.Log = log
	checker, err := access.New(*o)
	if err != nil {
		setting, problem, _ := strings.Cut(err.Error(), ": ")
		return nil, c.Fault("auth.jwt."+setting, problem)
	}
	return checker, nil
}

// newCertificate reads the certificate of the clients' listener; nil: there is
// none.
func newCertificate(c *config.Config, log func(string, error)) (*api.Certificate, error) {
	if c.TLS.Cert == "" {
		return nil, nil
	}
	certificate, err := api.LoadCertificate(c.TLS.Cert, c.TLS.Key, log)
	if err != nil {
		return nil, c.Fault("tls.cert", err.Error())
	}
	return certificate, nil
}

// checkFiles reads the files with keys that the settings name.
func checkFiles(c *config.Config) error {
	checker, err := newChecker(c, nil)
	if err != nil {
		return err
	}
	checker.Close()
	_, err = newCertificate(c, nil)
	return err
}

// announceAuth says at start who may use this server.
func announceAuth(c *config.Config, logger zerolog.Logger) {
	auth := &c.Auth
	if auth.Set() {
		line := logger.Info().Int("keys", len(auth.Keys)).Bool("jwt", auth.JWT.Set())
		if len(auth.Anonymous.Read)+len(auth.Anonymous.Publish) > 0 {
			line.Strs("anonymous_read", auth.Anonymous.Read).Strs("anonymous_publish", auth.Anonymous.Publish)
		}
		line.Msg("auth: what is not for anybody needs a token")
	}
	if n := len(auth.JWT.Secret); n > 0 && n < access.ShortSecret {
		logger.Warn().Msgf("auth.jwt.secret has %d bytes and can be guessed from any token: openssl rand -hex %d makes one that cannot", n, access.ShortSecret)
	}
	if u, err := url.Parse(auth.JWT.JWKSURL); err == nil && u.Scheme == "http" && !config.Loopback(net.JoinHostPort(u.Hostname(), "80")) {
		logger.Warn().Msg("auth.jwt.jwks_url is not https: whoever can change what comes from there can make tokens")
	}
	switch beyond := !config.Loopback(c.Admin.Listen); {
	case auth.Insecure && !auth.Set():
		logger.Warn().Msg("auth.insecure: everyone who can reach this server may read and publish")
	case auth.Insecure && beyond:
		logger.Warn().Msg("auth.insecure: everyone who can reach admin.listen sees metrics and profiles")
	case !auth.Set():
		logger.Info().Msg("no auth: everyone on this machine may read and publish")
	}
}
