package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"rejoin/stream"
)

// ChannelInfo is what can be read of a channel now.
type ChannelInfo struct {
	Channel     string    `json:"channel"`
	First       stream.ID `json:"first"` // oldest message retained; zero: none
	Last        stream.ID `json:"last"`  // newest id ever given; zero: never had one
	Length      uint64    `json:"length"`
	Subscribers int       `json:"subscribers"` // of the server that answered
}

// Channel describes a channel. One that was never used is no error: it has no
// messages.
func (c *Client) Channel(ctx context.Context, channel string) (ChannelInfo, error) {
	if err := stream.CheckChannel(channel); err != nil {
		return ChannelInfo{}, &Error{Status: http.StatusBadRequest, Code: "bad_request", Detail: err.Error()}
	}
	var info ChannelInfo
	err := c.call(ctx, http.MethodGet, channelPath(channel, ""), nil, &info)
	return info, err
}

// ListedChannel is a channel with messages retained or readers.
type ListedChannel struct {
	Channel     string `json:"channel"`
	Subscribers int    `json:"subscribers"` // of the server that answered
}

// Channels lists the channels whose names match a pattern, "" for all: * is one
// part between dots, ** the rest. It needs the right to administer. One that
// comes into use meanwhile may be left out. An error is the last thing it
// yields.
func (c *Client) Channels(ctx context.Context, match string) iter.Seq2[ListedChannel, error] {
	return func(yield func(ListedChannel, error) bool) {
		query := url.Values{"limit": {"1000"}}
		if match != "" {
			query.Set("match", match)
		}
		for {
			var page struct {
				Channels []ListedChannel `json:"channels"`
				Cursor   string          `json:"cursor"`
			}
			if err := c.call(ctx, http.MethodGet, "/v1/channels", query, &page); err != nil {
				yield(ListedChannel{}, err)
				return
			}
			for _, channel := range page.Channels {
				if !yield(channel, nil) {
					return
				}
			}
			if page.Cursor == "" {
				return
			}
			query.Set("cursor", page.Cursor)
		}
	}
}

// End ends a channel: nothing more will come, its readers are told [End], and a
// later publish is refused with [CodeEnded]. It returns the id of the end; a
// channel that has ended has it already.
func (c *Client) End(ctx context.Context, channel string) (stream.ID, error) {
	if err := stream.CheckChannel(channel); err != nil {
		return stream.ID{}, &Error{Status: http.StatusBadRequest, Code: "bad_request", Detail: err.Error()}
	}
	ctx, cancel := c.whileTrying(ctx)
	defer cancel()
	pass, err := c.gate.enter(ctx, overhead, channel) // behind what is being published
	if err != nil {
		return stream.ID{}, err
	}
	defer c.gate.leave(pass)
	var answer struct {
		ID stream.ID `json:"id"`
	}
	err = c.call(ctx, http.MethodPost, channelPath(channel, "/end"), nil, &answer)
	return answer.ID, err
}

// maxAnswer bounds what call reads.
const maxAnswer = 4 << 20

// call makes a request that is safe to repeat, and reads its answer into v.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, v any) error {
	ctx, cancel := c.whileTrying(ctx)
	defer cancel()
	_, err := c.retry(ctx, func(ctx context.Context, server *url.URL) error {
		r, err := c.newRequest(ctx, method, server, path, query, nil)
		if err != nil {
			return err
		}
		resp, err := c.do(server, r)
		if err != nil {
			return err
		}
		defer drain(resp.Body)
		if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
			return errorOf(resp)
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, v); err != nil {
			return fmt.Errorf("%w: an answer that does not read: %w", ErrProtocol, err)
		}
		return nil
	})
	return err
}
