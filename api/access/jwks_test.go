package access

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// provider is a source of keys in the test's hands.
type provider struct {
	mu    sync.Mutex // guards the following
	text  string
	err   error
	takes time.Duration
	asked int
	told  []string
}

func (p *provider) source(ctx context.Context) ([]byte, error) {
	p.mu.Lock()
	p.asked++
	text, err, takes := p.text, p.err, p.takes
	p.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return []byte(text), err
}

func (p *provider) set(text string, err error, takes time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.err, p.takes = text, err, takes
}

func (p *provider) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *provider) log(message string, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, message)
}

// inBubble runs a test in fake time on a checker whose keys come from p.
func inBubble(t *testing.T, p *provider, test func(t *testing.T, c *Checker)) {
	synctest.Test(t, func(t *testing.T) {
		v, err := newVerifier(JWT{Secret: "replaced below"}, nil)
		require.NoError(t, err)
		v.parser = jwt.NewParser(jwt.WithValidMethods([]string{ES256}), jwt.WithExpirationRequired())
		v.set = newKeySet(p.source, urlEvery, p.log)
		v.key = v.set.keyfunc
		c := &Checker{jwt: v}
		test(t, c)
		c.Close()
	})
}

func esToken(kid string) string {
	return sign(jwt.SigningMethodES256, ecKey, jwt.MapClaims{"exp": time.Now().Add(100 * time.Hour).Unix()}, map[string]any{"kid": kid})
}

var firstSet, secondSet = jwks(map[string]crypto.PublicKey{"1": ecKey.Public()}), jwks(map[string]crypto.PublicKey{"2": ecKey.Public()})

// A key that was not there when the set was got is found by the token that names
// it; others, known or not, wait for nothing.
// Holds G100.
func TestNewKeyIsFound(t *testing.T) {
	p := &provider{text: firstSet}
	inBubble(t, p, func(t *testing.T, c *Checker) {
		_, err := c.Check(t.Context(), esToken("1"))
		require.NoError(t, err, "waits for the first set")
		p.set(secondSet, nil, time.Second)
		time.Sleep(soonest)
		begun := time.Now()
		_, err = c.Check(t.Context(), esToken("2"))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begun))
		require.Equal(t, 2, p.times())

		// Whoever makes up names cannot make us ask again and again, or wait.
		begun = time.Now()
		for i := range 1000 {
			_, err = c.Check(t.Context(), esToken(fmt.Sprint("made up ", i)))
			require.ErrorContains(t, err, "not signed with a key known here")
		}
		require.Zero(t, time.Since(begun))
		require.Equal(t, 2, p.times())
		refused(t, c, esToken("1"))
	})
}

// A source that hangs delays who names a known key by nothing, others by
// patience.
// Holds G100.
func TestSlowSource(t *testing.T) {
	p := &provider{text: firstSet}
	inBubble(t, p, func(t *testing.T, c *Checker) {
		_, err := c.Check(t.Context(), esToken("1"))
		require.NoError(t, err)
		p.set(firstSet, nil, time.Hour)
		time.Sleep(soonest)
		var wg sync.WaitGroup
		begun := time.Now()
		for i := range 100 {
			wg.Go(func() {
				_, err := c.Check(t.Context(), esToken(fmt.Sprint("unknown ", i)))
				require.Error(t, err)
				require.Equal(t, patience, time.Since(begun))
			})
		}
		synctest.Wait()
		_, err = c.Check(t.Context(), esToken("1"))
		require.NoError(t, err)
		require.Zero(t, time.Since(begun))
		wg.Wait()
		require.Equal(t, 2, p.times())

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		before := time.Now()
		_, err = c.Check(ctx, esToken("unknown"))
		require.Error(t, err)
		require.Zero(t, time.Since(before), "the client is gone")
	})
}

// While the source is away the keys got before serve for a day, then none do. It
// is said once when it goes and once when it comes back.
// Holds G100.
func TestSourceAway(t *testing.T) {
	p := &provider{err: errors.New("away")}
	inBubble(t, p, func(t *testing.T, c *Checker) {
		_, err := c.Check(t.Context(), esToken("1"))
		require.ErrorIs(t, err, ErrNoKeys)
		p.set(firstSet, nil, 0)
		time.Sleep(soonest)
		synctest.Wait()
		_, err = c.Check(t.Context(), esToken("1"))
		require.NoError(t, err, "it is asked again soon")
		require.Equal(t, 2, p.times())

		p.set("", errors.New("away"), 0)
		time.Sleep(urlEvery)
		synctest.Wait()
		require.Equal(t, 3, p.times())
		time.Sleep(tooOld - urlEvery - time.Second)
		_, err = c.Check(t.Context(), esToken("1"))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, err = c.Check(t.Context(), esToken("1"))
		require.ErrorIs(t, err, ErrNoKeys)

		p.set(firstSet, nil, 0)
		time.Sleep(soonest)
		synctest.Wait()
		_, err = c.Check(t.Context(), esToken("1"))
		require.NoError(t, err)
		const gone, back = "the keys that verify tokens cannot be got; those got before serve for a day", "the keys that verify tokens are got again"
		require.Equal(t, []string{gone, back, gone, back}, p.told)
	})
}

// A key that was withdrawn is used for urlEvery at most.
// Holds G100.
func TestWithdrawnKey(t *testing.T) {
	p := &provider{text: firstSet}
	inBubble(t, p, func(t *testing.T, c *Checker) {
		_, err := c.Check(t.Context(), esToken("1"))
		require.NoError(t, err)
		p.set(secondSet, nil, 0)
		time.Sleep(urlEvery)
		synctest.Wait()
		refused(t, c, esToken("1"))
	})
}

// A kid finds a key by its exact name or nothing, whatever it is.
// Holds G99.
func TestKidTricks(t *testing.T) {
	path := write(t, jwks(map[string]crypto.PublicKey{"a": ecKey.Public(), "": otherKey.Public()}))
	c := newChecker(t, Options{JWT: &JWT{JWKSFile: path}})
	with := func(kid any) string {
		return sign(jwt.SigningMethodES256, ecKey, claim(nil), map[string]any{"kid": kid})
	}
	_, err := c.Check(t.Context(), with("a"))
	require.NoError(t, err)
	for _, kid := range []any{
		"../../../../etc/passwd", path, "file://" + path, "A", "a\x00", "a ", "' OR 1=1 --", "http://127.0.0.1/a", "",
		1, true, nil, []string{"a"}, map[string]any{"a": "a"}, strings.Repeat("a", 8<<10),
	} {
		reason := refused(t, c, with(kid))
		require.NotContains(t, reason, "passwd")
	}
	require.Contains(t, refused(t, c, with(strings.Repeat("a", MaxToken))), "longer than")
}

// Of a set only keys that verify signatures are used; others do no harm.
// Holds G100.
func TestSetsOfAllKinds(t *testing.T) {
	good := strings.TrimSuffix(strings.TrimPrefix(firstSet, `{"keys":[`), `]}`)
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"beside others":            {`{"keys":[1,null,{},{"kty":"oct","k":"AAAA","kid":"1"},{"kty":"XY","kid":"x"},` + good + `]}`, true},
		"with a certificate":       {`{"keys":[` + strings.Replace(good, `{`, `{"x5u":"http://127.0.0.1:1/","x5c":["AAAA"],"x5t":"AA",`, 1) + `]}`, true},
		"for signatures":           {`{"keys":[` + strings.Replace(good, `{`, `{"use":"sig","key_ops":["verify"],"alg":"ES256",`, 1) + `]}`, true},
		"for encryption":           {`{"keys":[` + strings.Replace(good, `{`, `{"use":"enc",`, 1) + `]}`, false},
		"for another algorithm":    {`{"keys":[` + strings.Replace(good, `{`, `{"alg":"HS256",`, 1) + `]}`, false},
		"for signing, not for us":  {`{"keys":[` + strings.Replace(good, `{`, `{"key_ops":["sign"],`, 1) + `]}`, false},
		"too many":                 {`{"keys":[` + strings.Repeat(good+",", mostKeys) + good + `]}`, false},
		"nothing":                  {``, false},
		"empty":                    {`{"keys":[]}`, false},
		"a page instead":           {`<!doctype html>`, false},
		"a secret under that name": {`{"keys":[{"kty":"oct","k":"AAAA","kid":"1"}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseSet([]byte(c.text))
			require.Equal(t, c.ok, err == nil, "%v", err)
		})
	}
}

// By HTTP: what is not a set within its bounds is none.
// Holds G100.
func TestFetch(t *testing.T) {
	tls := httptest.NewTLSServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	defer tls.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, firstSet) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		for range 2 << 10 {
			fmt.Fprint(w, strings.Repeat(" ", 1<<10))
		}
	})
	mux.HandleFunc("/error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, firstSet, 500) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	for path, want := range map[string]string{
		"/good": "", "/moved": "", "/round": "more than 3 redirects", "/huge": "larger than 1 MiB", "/error": "500", "/none": "404",
	} {
		text, err := fromURL(srv.URL + path)(t.Context())
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, firstSet, string(text))
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	_, err := fromURL("http://127.0.0.1:1/")(t.Context())
	require.Error(t, err)

	c := newChecker(t, Options{JWT: &JWT{JWKSURL: srv.URL + "/good"}})
	_, err = c.Check(t.Context(), sign(jwt.SigningMethodES256, ecKey, claim(nil), map[string]any{"kid": "1"}))
	require.NoError(t, err)
}

// A file of keys is read again when it has changed.
// Holds G100.
func TestFileChanges(t *testing.T) {
	path := write(t, firstSet)
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Options{JWT: &JWT{JWKSFile: path}})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Check(t.Context(), esToken("1"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(secondSet), 0o600))
		time.Sleep(fileEvery)
		synctest.Wait()
		_, err = c.Check(t.Context(), esToken("2"))
		require.NoError(t, err)
		refused(t, c, esToken("1"))
	})
}
