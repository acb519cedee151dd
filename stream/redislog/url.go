package redislog

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// target is a parsed [Options.URL].
type target struct {
	kind     string // "redis", "sentinel", "cluster"
	hosts    []string
	master   string // sentinel: the master's name
	user     string
	password string
	db       int
	tls      *tls.Config // nil: plain TCP

	sentinelUser, sentinelPassword string
}

// CheckURL reports whether s is an address of Redis:
//
//	redis://[user:password@]host[:6379][/db]
//	redis+sentinel://[user:password@]host[:26379],…/master-name
//	redis+cluster://[user:password@]host[:6379],…
//
// With rediss for redis every connection is TLS. The user and password are
// those of the Redis servers, percent-encoded where needed. Further, behind a
// question mark: db=N, skip_verify=true (TLS without looking at the
// certificate), sentinel_user= and sentinel_password=. The error never holds a
// password.
func CheckURL(s string) error {
	_, err := parseURL(s)
	return err
}

func parseURL(s string) (t target, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("redislog: not an address of Redis: %w", err)
		}
	}()
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return t, errors.New("want redis://host:port, redis+sentinel://host,host/master or redis+cluster://host,host (rediss for TLS)")
	}
	proto, kind, _ := strings.Cut(scheme, "+")
	switch t.kind = kind; kind {
	case "":
		t.kind = "redis"
	case "sentinel", "cluster":
	default:
		return t, fmt.Errorf("%q is none of redis, redis+sentinel, redis+cluster", scheme)
	}
	switch proto {
	case "redis":
	case "rediss":
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return t, fmt.Errorf("%q is neither redis nor rediss", proto)
	}

	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		var err1, err2 error
		t.user, err1 = url.PathUnescape(user)
		t.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return t, errors.New("the user or password is not percent-encoded well")
		}
		authority = authority[i+1:]
	}
	if t.hosts, err = parseHosts(authority, t.kind); err != nil {
		return t, err
	}
	if err = t.parsePath(path); err != nil {
		return t, err
	}
	return t, t.parseQuery(query)
}

func parseHosts(list, kind string) (hosts []string, err error) {
	port := "6379"
	if kind == "sentinel" {
		port = "26379"
	}
	for h := range strings.SplitSeq(list, ",") {
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p = strings.Trim(h, "[]"), port
		}
		if n, err := strconv.ParseUint(p, 10, 16); host == "" || err != nil || n == 0 || strings.ContainsAny(host, "/@ ") {
			return nil, fmt.Errorf("%q is not host:port", h)
		}
		hosts = append(hosts, net.JoinHostPort(host, p))
	}
	if kind == "redis" && len(hosts) > 1 {
		return nil, errors.New("one host only with redis:// (several: redis+sentinel or redis+cluster)")
	}
	return hosts, nil
}

func (t *target) parsePath(path string) (err error) {
	switch t.kind {
	case "sentinel":
		if t.master, err = url.PathUnescape(path); err != nil || t.master == "" || strings.Contains(t.master, "/") {
			return errors.New("the master's name is missing behind the hosts: redis+sentinel://host,host/name")
		}
	case "cluster":
		if path != "" {
			return errors.New("a cluster has no databases: nothing may stand behind its hosts")
		}
	default:
		if path != "" {
			return t.setDB(path)
		}
	}
	return nil
}

func (t *target) setDB(s string) error {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return fmt.Errorf("%q is not the number of a database", s)
	}
	t.db = int(n)
	return nil
}

func (t *target) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("what stands behind the question mark is not name=value&…")
	}
	for name, v := range values {
		last := v[len(v)-1]
		switch {
		case name == "db" && t.kind != "cluster":
			if err := t.setDB(last); err != nil {
				return err
			}
		case name == "skip_verify" && t.tls != nil:
			skip, err := strconv.ParseBool(last)
			if err != nil {
				return errors.New("skip_verify is true or false")
			}
			t.tls.InsecureSkipVerify = skip
		case name == "sentinel_user" && t.kind == "sentinel":
			t.sentinelUser = last
		case name == "sentinel_password" && t.kind == "sentinel":
			t.sentinelPassword = last
		default:
			return fmt.Errorf("%q means nothing here", name)
		}
	}
	return nil
}
