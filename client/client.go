package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultURL is where a server listens that was told nothing else.
const DefaultURL = "http://127.0.0.1:8080"

// Options of a Client. The zero value is useful.
type Options struct {
	// URL is the server, or what stands in front of several: http or https,
	// with a path if a proxy puts one before. Empty: [DefaultURL].
	URL string
	// URLs, instead of URL, are several servers of one log. They are tried in
	// turn: when one fails, the next.
	URLs []string

	// Token is the API key or JWT to come with, "" for none.
	Token string
	// TokenFunc, instead of Token, is asked for it before each request; its
	// error fails the request. With it a subscription outlives its token.
	TokenFunc func(context.Context) (string, error)

	// HTTPClient makes the requests; nil: one of the Client's own. Its Timeout
	// is not used, since a subscription has no end.
	HTTPClient *http.Client
	// Timeout is how long one request may wait for its answer to begin (10 s).
	// A server answers within its redis.timeout, 2 s if not set.
	Timeout time.Duration

	// RetryFor is how long a publish is tried, from the call on (2 minutes). It
	// must stay below the server's publish.idempotency_ttl, 5 minutes if not
	// set: a server that has forgotten the key would append a second time.
	RetryFor time.Duration
	// BufferBytes is how much publishes that are under way may hold, all
	// together (8 MiB): payloads and a fixed overhead for each. When it is full
	// the next ones wait.
	BufferBytes int
	// OnRetry hears why a publish or another call did not succeed yet, and how
	// long until it is tried again. It must not block. A subscription tells the
	// same as [Disconnected].
	OnRetry func(err error, wait time.Duration)

	// MaxMessageBytes is the largest message, as JSON, that a subscription
	// takes (16 MiB); a larger one ends it.
	MaxMessageBytes int
}

// Client publishes to and reads from one Rejoin: a server, or several of one
// log. It is safe for concurrent use.
type Client struct {
	o       Options
	servers []*url.URL
	http    *http.Client
	own     bool          // http is not the user's
	good    atomic.Uint32 // index of the server that answered last
	gate    *gate
}

// New makes a client. It connects to nothing yet; an error is one of the
// options.
func New(o Options) (*Client, error) {
	if o.URL != "" && len(o.URLs) > 0 {
		return nil, errors.New("client: URL and URLs: want one of them")
	}
	urls := o.URLs
	if len(urls) == 0 {
		urls = []string{o.URL}
	}
	c := &Client{}
	for _, text := range urls {
		if text == "" {
			text = DefaultURL
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("client: a server's URL does not read as http://host:port or https://host")
		}
		u.RawQuery, u.Fragment = "", ""
		c.servers = append(c.servers, u)
	}
	if o.Token != "" && o.TokenFunc != nil {
		return nil, errors.New("client: Token and TokenFunc: want one of them")
	}
	if err := checkToken(o.Token); err != nil {
		return nil, err
	}
	for d, standard := range map[*time.Duration]time.Duration{&o.Timeout: 10 * time.Second, &o.RetryFor: 2 * time.Minute} {
		if *d <= 0 {
			*d = standard
		}
	}
	for n, standard := range map[*int]int{&o.BufferBytes: 8 << 20, &o.MaxMessageBytes: 16 << 20} {
		if *n <= 0 {
			*n = standard
		}
	}
	c.o = o
	c.gate = newGate(o.BufferBytes)
	if c.own = o.HTTPClient == nil; c.own {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		c.http = &http.Client{Transport: transport}
	} else {
		bare := *o.HTTPClient
		bare.Timeout = 0
		c.http = &bare
	}
	return c, nil
}

// Close lets go of connections that wait to be used again. Calls and
// subscriptions under way go on; they end by their own contexts.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// checkToken refuses what cannot stand in a header, such as the line break at
// the end of a file.
func checkToken(token string) error {
	if strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) >= 0 {
		return errors.New("client: the token holds a space, a line break or another character that no token has")
	}
	return nil
}

// newRequest makes a request of a server. path begins behind the server's own.
func (c *Client) newRequest(ctx context.Context, method string, server *url.URL, path string, query url.Values, body io.Reader) (*http.Request, error) {
	u := server.JoinPath(path)
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	// No compression: a proxy that compresses a stream holds it back.
	r.Header.Set("Accept-Encoding", "identity")
	return r, c.authorize(ctx, r.Header)
}

// do makes the request. Its error names the server, but neither path nor query:
// errors are logged.
func (c *Client) do(server *url.URL, r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r)
	return resp, unreached(server, err)
}

func unreached(server *url.URL, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", server.Redacted(), e.Err)
	}
	return err
}

// authorize adds the token, if there is one.
func (c *Client) authorize(ctx context.Context, head http.Header) error {
	token := c.o.Token
	if c.o.TokenFunc != nil {
		var err error
		if token, err = c.o.TokenFunc(ctx); err != nil {
			return &tokenError{err}
		}
		if err := checkToken(token); err != nil {
			return &tokenError{err}
		}
	}
	if token != "" {
		head.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// tokenError says that there is no token to come with: the user's to mend.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "client: no token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// channelPath is the path of something of a channel. A channel's name has no
// character that a path segment must escape (RFC 3986, section 3.3).
func channelPath(channel, rest string) string { return "/v1/channels/" + channel + rest }

// from are the servers in the order to try them: the one that answered last
// first.
func (c *Client) from() []*url.URL {
	i := int(c.good.Load()) % len(c.servers)
	return slices.Concat(c.servers[i:], c.servers[:i])
}

// answered notes that a server answers.
func (c *Client) answered(server *url.URL) {
	if i := slices.Index(c.servers, server); i >= 0 {
		c.good.Store(uint32(i))
	}
}

// newKey makes an idempotency key of 128 random bits.
func newKey() string { return rand.Text() }

// retry calls try until it succeeds, fails for good, or ctx ends: each server
// once, then, after a wait, each again. Its error wraps the last one of try, if
// there was one, and says why there was no further one.
func (c *Client) retry(ctx context.Context, try func(ctx context.Context, server *url.URL) error) (attempts int, err error) {
	servers := c.from()
	pause := backoff{}
	var hint time.Duration // the longest that a server asked for
	for {
		server := servers[attempts%len(servers)]
		attempts++
		last := err
		err = within(ctx, c.o.Timeout, func(ctx context.Context) error { return try(ctx, server) })
		switch {
		case err == nil:
			c.answered(server)
			return attempts, nil
		case ctx.Err() != nil && errors.Is(err, ctx.Err()): // cut short: it says nothing
			return attempts, gaveUp(ctx, last)
		case !temporary(err):
			return attempts, err
		}
		hint = max(hint, retryAfter(err))
		if attempts%len(servers) != 0 {
			continue
		}
		wait := hint + pause.next()
		hint = 0
		if c.o.OnRetry != nil {
			c.o.OnRetry(err, wait)
		}
		if sleep(ctx, wait) != nil {
			return attempts, gaveUp(ctx, err)
		}
	}
}

// within bounds one request; a request that took longer is told as such, since
// "context deadline exceeded" would be taken for the caller's.
func within(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := do(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: no answer within %v", errNoAnswer, d)
	}
	return err
}

// gaveUp is the error of a call whose context ended, and last what the last try
// that came to an end said, if there was one.
func gaveUp(ctx context.Context, last error) error {
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; the last try: %w", context.Cause(ctx), last)
}

// timeUp is the cause of a call that ended by the client's own bound.
type timeUp time.Duration

func (d timeUp) Error() string        { return "gave up after " + time.Duration(d).String() }
func (d timeUp) Is(target error) bool { return target == context.DeadlineExceeded }
