package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// urlEvery and fileEvery are how often a set of keys is got anew.
	urlEvery, fileEvery = 5 * time.Minute, time.Minute
	// soonest is the least time between two attempts, whatever tokens name.
	soonest = 10 * time.Second
	// attempt bounds one of them.
	attempt = 10 * time.Second
	// patience is how long a request waits for one.
	patience = 2 * time.Second
	// tooOld is the age of a set that is used no more, since the keys in it may
	// have been withdrawn long ago.
	tooOld = 24 * time.Hour
	// mostKeys is how many keys of a set are used: a token that names none is
	// tried with each.
	mostKeys = 32
)

// keySet is a set of keys (RFC 7517) that changes while the server runs. One
// goroutine gets it, now and then and when a token names a key that is not in it;
// requests use what was got last.
type keySet struct {
	source func(context.Context) ([]byte, error)
	every  time.Duration
	log    func(message string, err error)

	current atomic.Pointer[fetched]
	wanted  chan struct{} // one slot: somebody waits for the next attempt
	stop    context.CancelFunc
	stopped chan struct{}

	mu    sync.Mutex    // guards the following
	going bool          // an attempt is under way
	last  time.Time     // when the last one began
	done  chan struct{} // closed when the one under way, or the next, is over
}

// fetched is a set as it was at a moment.
type fetched struct {
	keyfunc.Keyfunc
	at time.Time
}

// errUnknownKey says that a token names a key that is not in the set.
var errUnknownKey = errors.New("access: unknown key")

func newKeySet(source func(context.Context) ([]byte, error), every time.Duration, log func(string, error)) *keySet {
	if log == nil {
		log = func(string, error) {}
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &keySet{
		source: source, every: every, log: log,
		wanted: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{}), done: make(chan struct{}),
	}
	s.wanted <- struct{}{} // the first attempt: at once
	go s.run(ctx)
	return s
}

func (s *keySet) close() {
	s.stop()
	<-s.stopped
}

// run gets the set whenever it is time, until ctx ends.
func (s *keySet) run(ctx context.Context) {
	defer close(s.stopped)
	failing := false
	next := time.NewTimer(s.every)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-s.wanted:
		}
		err := s.get(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !failing:
			s.log("the keys that verify tokens cannot be got; those got before serve for a day", err)
		case err == nil && failing:
			s.log("the keys that verify tokens are got again", nil)
		}
		if failing = err != nil; failing {
			next.Reset(soonest)
		} else {
			next.Reset(s.every)
		}
	}
}

// get is one attempt. Whoever waits is freed when it is over.
func (s *keySet) get(ctx context.Context) error {
	s.mu.Lock()
	s.going, s.last = true, time.Now()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	set, err := parse(s.source(ctx))
	if err == nil {
		s.current.Store(&fetched{set, time.Now()})
	}
	s.mu.Lock()
	close(s.done)
	s.going, s.done = false, make(chan struct{})
	s.mu.Unlock()
	return err
}

func parse(text []byte, err error) (keyfunc.Keyfunc, error) {
	if err != nil {
		return nil, err
	}
	return parseSet(text)
}

// keyfunc finds the key of a token, in the set as it is or in a newer one.
func (s *keySet) keyfunc(ctx context.Context) jwt.Keyfunc {
	return func(token *jwt.Token) (any, error) {
		key, err := s.find(token)
		if err == nil || !s.wait(ctx) {
			return key, err
		}
		return s.find(token)
	}
}

// find finds the key of a token in the set as it is.
func (s *keySet) find(token *jwt.Token) (any, error) {
	set := s.current.Load()
	if set == nil || time.Since(set.at) > tooOld {
		return nil, ErrNoKeys
	}
	key, err := set.Keyfunc.Keyfunc(token)
	if err != nil {
		return nil, errUnknownKey // the library's error names the key
	}
	return key, nil
}

// wait waits for an attempt to get the set, if there may be one now; it reports
// whether there was.
func (s *keySet) wait(ctx context.Context) bool {
	s.mu.Lock()
	done, going := s.done, s.going
	worth := going || time.Since(s.last) >= soonest
	s.mu.Unlock()
	if !worth {
		return false
	}
	if !going {
		select {
		case s.wanted <- struct{}{}:
		default:
		}
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-done:
		return true
	case <-timeout.C:
	case <-ctx.Done():
	case <-s.stopped:
	}
	return false
}

// parseSet reads a set and keeps the keys that verify signatures; those it does
// not understand are passed over (RFC 7517, section 5).
func parseSet(text []byte) (keyfunc.Keyfunc, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || set.Keys == nil {
		return nil, errors.New(`not a set of keys: want JSON, {"keys":[…]}`)
	}
	keys := jwkset.NewMemoryStorage()
	kept := 0
	for _, raw := range set.Keys {
		key, ok := parseKey(raw)
		if !ok {
			continue
		}
		if kept++; kept > mostKeys {
			return nil, fmt.Errorf("more than %d keys", mostKeys)
		}
		if err := keys.KeyWrite(context.Background(), key); err != nil {
			return nil, err
		}
	}
	if kept == 0 {
		return nil, errors.New("the set has no key for RS256, ES256 or EdDSA")
	}
	return keyfunc.New(keyfunc.Options{Storage: keys})
}

// parseKey reads a key; ok is false if it is none that verifies signatures here.
func parseKey(raw []byte) (key jwkset.JWK, ok bool) {
	var m jwkset.JWKMarshal
	if json.Unmarshal(raw, &m) != nil {
		return key, false
	}
	if m.USE != "" && m.USE != jwkset.UseSig || len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) {
		return key, false
	}
	// Only the key itself counts, not certificates beside it.
	m.X5C, m.X5T, m.X5TS256, m.X5U = nil, "", "", ""
	key, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return key, false
	}
	algorithm, err := algorithmOf(key.Key())
	return key, err == nil && (m.ALG == "" || m.ALG.String() == algorithm)
}

func fromFile(path string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return readFile(path) }
}

// fromURL gets a set by HTTP. It keeps no connection between two attempts.
func fromURL(url string) func(context.Context) ([]byte, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	client := &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > 3 {
			return errors.New("more than 3 redirects")
		}
		if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return errors.New("a redirect away from https")
		}
		return nil
	}}
	return func(ctx context.Context) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", "application/jwk-set+json, application/json")
		answer, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the server answered %s", answer.Status)
		}
		return readBounded(answer.Body, "the answer")
	}
}
