package client_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/client"
	"rejoin/stream"
)

func TestChannels(t *testing.T) {
	s := newServer(t)
	c := newClient(t, client.Options{URL: s.url()})
	ctx := within(t, patience)
	require.NoError(t, publishNumbers(ctx, c, []string{"news.uk", "news.us", "orders"}, 3))

	info, err := c.Channel(ctx, "news.uk")
	require.NoError(t, err)
	assert.Equal(t, []any{"news.uk", uint64(3), uint64(1), uint64(3), 0}, []any{info.Channel, info.Length, info.First.N, info.Last.N, info.Subscribers})
	info, err = c.Channel(ctx, "none")
	require.NoError(t, err)
	assert.Equal(t, client.ChannelInfo{Channel: "none"}, info)

	for match, want := range map[string][]string{"": {"news.uk", "news.us", "orders"}, "news.*": {"news.uk", "news.us"}, "none": nil} {
		var names []string
		for channel, err := range c.Channels(ctx, match) {
			require.NoError(t, err)
			names = append(names, channel.Channel)
		}
		assert.ElementsMatch(t, want, names, match)
	}
	for channel, err := range c.Channels(ctx, "a*") {
		said, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v %v", channel, err)
		assert.Equal(t, 400, said.Status)
	}

	id, err := c.End(ctx, "orders")
	require.NoError(t, err)
	again, err := c.End(ctx, "orders")
	require.NoError(t, err)
	assert.Equal(t, id, again)
	assert.Equal(t, uint64(4), id.N)
	for _, err := range []error{second(c.Channel(ctx, "a/b")), second(c.End(ctx, "a/b"))} {
		said, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, 400, said.Status)
	}
}

// A list goes on page by page, and through an outage.
func TestChannelsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := func(cursor string, names ...string) answer {
			body := ""
			for i, name := range names {
				if i > 0 {
					body += ","
				}
				body += fmt.Sprintf(`{"channel":%q,"subscribers":1}`, name)
			}
			return says(200, `{"channels":[`+body+`],"cursor":`+cursor+`}`)
		}
		f := &fake{t: t, answers: []answer{page(`"x"`, "a", "b"), refused, refuses(503, "log_unavailable"), page(`"y"`), page("null", "c"), refuses(403, "forbidden")}}
		c := f.client(client.Options{})
		var names []string
		for channel, err := range c.Channels(t.Context(), "**") {
			require.NoError(t, err)
			names = append(names, channel.Channel)
		}
		assert.Equal(t, []string{"a", "b", "c"}, names)
		var asked []string
		for _, r := range f.requests {
			asked = append(asked, r.URL.Query().Get("cursor"))
		}
		assert.Equal(t, []string{"", "x", "x", "x", "y"}, asked)
		for _, err := range c.Channels(t.Context(), "") {
			assert.Equal(t, &client.Error{Status: 403, Code: "forbidden", Detail: "the detail"}, err)
		}
	})
}

// The end comes behind what is being published.
func TestEndKeepsTheOrder(t *testing.T) {
	s := newServer(t)
	c := newClient(t, client.Options{URL: s.url()})
	ctx := within(t, patience)
	done := make(chan error, 50)
	for i := range 50 {
		go func() {
			_, err := c.Publish(ctx, "job", fmt.Sprint(i), nil)
			done <- err
		}()
	}
	for range 25 {
		require.NoError(t, <-done)
	}
	id, err := c.End(ctx, "job")
	require.NoError(t, err)
	refused := 0
	for range 25 {
		if err := <-done; err != nil {
			said, ok := errors.AsType[*client.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, client.CodeEnded, said.Code)
			refused++
		}
	}
	page, err := s.log.Read(ctx, stream.Query{Channel: "job", Limit: 100})
	require.NoError(t, err)
	assert.Len(t, page.Entries, 50-refused+1)
	assert.Equal(t, id, page.Entries[len(page.Entries)-1].ID)
}
