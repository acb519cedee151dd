package access

import (
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// Holds G96.
func TestKeys(t *testing.T) {
	c := newChecker(t, Options{
		Keys: []Key{
			{Name: "ops", SHA256: hash("k1"), Rights: Rights{Admin: true}},
			{Name: "app", SHA256: hash("k2"), Rights: Rights{Read: patterns("news.*"), Publish: patterns("news.uk")}},
		},
		Anonymous: Rights{Read: patterns("open.**")},
	})
	g, err := c.Check(t.Context(), "k1")
	require.NoError(t, err)
	require.Equal(t, "ops", g.Name)
	require.True(t, g.IsAdmin())
	require.False(t, g.MayRead("news.uk"), "admin is not reading")
	require.False(t, g.MayPublish("news.uk"))
	require.False(t, g.PublishesAnywhere())
	require.Zero(t, g.Expires)

	g, err = c.Check(t.Context(), "k2")
	require.NoError(t, err)
	require.False(t, g.Anonymous || g.IsAdmin())
	require.True(t, g.MayPublish("news.uk") && g.PublishesAnywhere())
	require.False(t, g.MayPublish("news.fr"))
	require.True(t, g.MayRead("open.a.b"), "what anybody may do, a key's owner may")

	for _, bad := range []string{"k", "k1 ", "K1", "k11", string(c.keys[0].SHA256[:]), strings.Repeat("k", MaxToken)} {
		require.Equal(t, "the token is not a known API key", refused(t, c, bad))
	}
	require.Equal(t, "the token is empty", refused(t, c, ""))
	require.Equal(t, "the token is longer than 16384 bytes", refused(t, c, strings.Repeat("k", MaxToken+1)))
}

// Patterns are taken by whole parts of a name.
// Holds G96.
func TestPatternsDoNotLeak(t *testing.T) {
	c := newChecker(t, Options{Keys: []Key{{SHA256: hash("k"), Rights: Rights{Read: patterns("news.*"), Publish: patterns("news.**")}}}})
	g, err := c.Check(t.Context(), "k")
	require.NoError(t, err)
	for _, channel := range []string{"newsx", "news", "news.a.b", "newsx.a", "News.a", "xnews.a", "a.news.b", "news:a"} {
		require.False(t, g.MayRead(channel), channel)
	}
	require.True(t, g.MayRead("news.a"))
	for _, channel := range []string{"news", "news.a", "news.a.b"} {
		require.True(t, g.MayPublish(channel), channel)
	}
	for _, channel := range []string{"newsx", "newsx.a", "a.news"} {
		require.False(t, g.MayPublish(channel), channel)
	}
}

// Holds G96.
func TestAnonymous(t *testing.T) {
	c := newChecker(t, Options{Anonymous: Rights{Read: patterns("open.*"), Publish: patterns("box"), Admin: true}})
	g := c.Anonymous()
	require.True(t, g.Anonymous && g.MayRead("open.a") && g.MayPublish("box") && g.PublishesAnywhere())
	require.False(t, g.MayRead("box") || g.MayPublish("open.a"))
	require.False(t, g.IsAdmin(), "nobody is admin without a token")

	g = newChecker(t, Options{}).Anonymous()
	require.False(t, g.MayRead("a") || g.MayPublish("a") || g.IsAdmin() || g.PublishesAnywhere())

	var none *Checker
	g = none.Anonymous()
	require.True(t, g.MayRead("a") && g.MayPublish("a") && g.IsAdmin() && g.PublishesAnywhere())
	g, err := none.Check(t.Context(), "whatever")
	require.NoError(t, err)
	require.True(t, g.MayRead("a"))
	none.Close()

	var zero Grant
	require.False(t, zero.MayRead("a") || zero.MayPublish("a") || zero.IsAdmin() || zero.PublishesAnywhere())
}

// With both, a token is a key before it is a JWT.
func TestKeysBesideJWT(t *testing.T) {
	token := sign(jwt.SigningMethodHS256, []byte(secret), claim(nil), nil)
	c := newChecker(t, Options{JWT: &JWT{Secret: secret}, Keys: []Key{{Name: "key", SHA256: hash("a.b.c")}}})
	g, err := c.Check(t.Context(), "a.b.c")
	require.NoError(t, err)
	require.Equal(t, "key", g.Name)
	g, err = c.Check(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, "anna", g.Name)
	require.Equal(t, "the token is neither a known API key nor a JWT", refused(t, c, "a.b"))
}
