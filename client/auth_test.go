package client_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/api"
	"rejoin/api/access"
	"rejoin/client"
	"rejoin/stream"
)

const testSecret = "0123456789abcdef0123456789abcdef"

// newGuardedServer asks who comes: the key "writer" may do everything, and JWTs
// say themselves what they may.
func newGuardedServer(t *testing.T) *server {
	all, err := stream.ParsePattern("**")
	require.NoError(t, err)
	patterns := []stream.Pattern{all}
	checker, err := access.New(access.Options{
		Keys: []access.Key{{Name: "w", SHA256: sha256.Sum256([]byte("writer")), Rights: access.Rights{Read: patterns, Publish: patterns, Admin: true}}},
		JWT:  &access.JWT{Secret: testSecret},
	})
	require.NoError(t, err)
	t.Cleanup(checker.Close)
	s := &server{log: newLog(t), address: "127.0.0.1:0", o: api.Options{Access: checker, RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond}}
	require.NoError(t, s.start())
	t.Cleanup(s.kill)
	return s
}

// tokenUntil allows to read, until that second.
func tokenUntil(t *testing.T, expires time.Time) string {
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"exp": expires.Unix(), "rejoin": map[string]any{"read": []string{"news"}},
	}).SignedString([]byte(testSecret))
	require.NoError(t, err)
	return text
}

// A subscription outlives its tokens: each message comes once, and in order.
// Holds G119.
func TestSubscriptionOutlivesItsTokens(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.String(), func(t *testing.T) {
			t.Parallel()
			s := newGuardedServer(t)
			writer := newClient(t, client.Options{URL: s.url(), Token: "writer"})
			asked, published := 0, 0
			reader := newClient(t, client.Options{URL: s.url(), TokenFunc: func(context.Context) (string, error) {
				asked++
				return tokenUntil(t, time.Now().Add(2*time.Second)), nil
			}})
			ctx := within(t, patience)
			a := account{last: map[string]int{}}
			for event, err := range reader.Subscribe(ctx, client.SubscribeOptions{Channels: []string{"news"}, Transport: transport}) {
				require.NoError(t, err)
				require.NoError(t, a.take(event))
				_, ready := event.(client.Ready)
				_, message := event.(client.Message)
				if ready || message && transport == client.LongPoll {
					published++
					_, err := writer.Publish(ctx, "news", strconv.Itoa(published), nil)
					require.NoError(t, err)
				}
				if asked > 2 {
					break
				}
			}
			require.NoError(t, ctx.Err())
			assert.Greater(t, asked, 2)
			assert.GreaterOrEqual(t, a.total, 2)
		})
	}
}

// What a token does not allow ends the subscription or the publish, and says so.
func TestTokensThatWillNotDo(t *testing.T) {
	s := newGuardedServer(t)
	ctx := within(t, patience)
	code := func(err error) string {
		said, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v", err)
		return said.Code
	}
	good := tokenUntil(t, time.Now().Add(time.Minute))
	for _, transport := range transports {
		o := client.SubscribeOptions{Channels: []string{"news"}, Transport: transport}
		for text, want := range map[string]string{"": client.CodeUnauthorized, "nonsense": client.CodeUnauthorized, tokenUntil(t, time.Now().Add(-time.Minute)): client.CodeUnauthorized} {
			_, _, err := collect(ctx, newClient(t, client.Options{URL: s.url(), Token: text}), o, 1)
			assert.Equal(t, want, code(err), "%v", transport)
		}
		o.Channels = []string{"olds"}
		_, _, err := collect(ctx, newClient(t, client.Options{URL: s.url(), Token: good}), o, 1)
		assert.Equal(t, client.CodeForbidden, code(err), "%v", transport)

		// One that runs out while it reads.
		o.Channels = []string{"news"}
		_, told, err := collect(ctx, newClient(t, client.Options{URL: s.url(), Token: tokenUntil(t, time.Now().Add(2*time.Second))}), o, 1)
		assert.Equal(t, client.CodeUnauthorized, code(err), "%v", transport)
		assert.NotEmpty(t, told)
	}
	c := newClient(t, client.Options{URL: s.url(), Token: good})
	_, err := c.Publish(ctx, "news", "x", nil)
	assert.Equal(t, client.CodeForbidden, code(err))
	_, err = c.PublishBatch(ctx, []client.Publication{{Channel: "news", Payload: "x"}, {Channel: "olds", Payload: "x"}})
	assert.Equal(t, client.CodeForbidden, code(err))
	_, err = c.Channel(ctx, "news")
	assert.NoError(t, err)
	for _, err := range c.Channels(ctx, "") {
		assert.Equal(t, client.CodeForbidden, code(err))
	}
}
