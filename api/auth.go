package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"rejoin/api/access"
	"rejoin/delivery"
	"rejoin/longpoll"
	"rejoin/ws"
)

// use is what a route is for. It says who may call it, and how they may say who
// they are.
type use uint8

const (
	reading       use = iota // by header, query or cookie
	publishing               // by header alone: what a page can send unasked must not count
	administering            // by header alone
)

// tokenCookie is the cookie that holds a reader's token.
const tokenCookie = "rejoin_token"

// may makes a function of a route that is called for those alone who may do what
// the route is for: on the channel in its path, if it has one. Where channels are
// named elsewhere the function asks itself: [mayRead], [mayPublish].
func (a *API) may(what use, serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		grant, err := a.grantFor(r, what)
		if err != nil {
			return err
		}
		r = r.WithContext(context.WithValue(r.Context(), grantKey{}, grant))
		inPath := chi.URLParam(r, "channel") != ""
		switch {
		case what == administering && !grant.IsAdmin():
			return refuse(grant, "this needs admin")
		case what == publishing && !inPath && !grant.PublishesAnywhere():
			return refuse(grant, "you may not publish") // whatever the body says
		case what == administering || !inPath:
			return serve(w, r)
		}
		channel, err := channelOf(r)
		if err != nil {
			return err
		}
		check := mayRead
		if what == publishing {
			check = mayPublish
		}
		if err := check(r, channel); err != nil {
			return err
		}
		return serve(w, r)
	}
}

type grantKey struct{}

// grantOf is the grant of a request that came through [API.may].
func grantOf(r *http.Request) *access.Grant {
	return r.Context().Value(grantKey{}).(*access.Grant)
}

// mayRead is the error of a request whose client may not read the channel.
func mayRead(r *http.Request, channel string) error { return readable(grantOf(r), channel) }

func readable(g *access.Grant, channel string) error {
	if g.MayRead(channel) {
		return nil
	}
	return refuse(g, "you may not read channel "+channel)
}

// mayPublish is the error of a request whose client may not publish to the
// channel.
func mayPublish(r *http.Request, channel string) error {
	g := grantOf(r)
	if g.MayPublish(channel) {
		return nil
	}
	return refuse(g, "you may not publish to channel "+channel)
}

// refuse is 401 to who has not said who they are, 403 to others.
func refuse(g *access.Grant, what string) *problem {
	if g.Anonymous {
		return unauthorized("", what+" without a token")
	}
	return &problem{
		Status: http.StatusForbidden, Code: codeForbidden, Detail: what,
		challenge: challenge + `, error="insufficient_scope"`,
	}
}

// challenge begins WWW-Authenticate (RFC 6750, section 3).
const challenge = `Bearer realm="rejoin"`

// unauthorized is a request without a good token. word is RFC 6750's, "" when no
// token was given.
func unauthorized(word, detail string) *problem {
	p := &problem{Status: http.StatusUnauthorized, Code: codeUnauthorized, Detail: detail, challenge: challenge}
	if word != "" {
		p.challenge += `, error="` + word + `"`
	}
	return p
}

// grantFor is what the client of a request may do, by the token it gave: the
// header's before the query's before the cookie's.
func (a *API) grantFor(r *http.Request, what use) (*access.Grant, error) {
	params := delivery.ParseParams(r.URL.RawQuery)
	if err := params.Check("token"); err != nil {
		return nil, err
	}
	inQuery, given := params.Get("token")
	if given && what != reading {
		return nil, badRequest("token: is for reading only; here a token comes in the header Authorization: Bearer …")
	}
	grant := a.o.Access.Anonymous()
	if a.o.Access == nil {
		return &grant, nil
	}
	token, err := bearer(r)
	if err != nil {
		return nil, err
	}
	if token == "" && what == reading {
		if token = inQuery; token == "" && !longpoll.IsJSONP(params) && a.fromOwnPage(r) {
			if c, err := r.Cookie(tokenCookie); err == nil {
				token = c.Value
			}
		}
	}
	if token == "" {
		return &grant, nil
	}
	if grant, err = a.check(r.Context(), token); err != nil {
		return nil, err
	}
	return &grant, nil
}

// check is the grant of a token.
func (a *API) check(ctx context.Context, token string) (access.Grant, error) {
	grant, err := a.o.Access.Check(ctx, token)
	if bad, ok := errors.AsType[*access.TokenError](err); ok {
		return grant, unauthorized("invalid_token", bad.Reason)
	}
	if errors.Is(err, access.ErrNoKeys) {
		return grant, &problem{
			Status: http.StatusServiceUnavailable, Code: codeKeysUnavailable, retryAfter: comeBack,
			Detail: "tokens cannot be verified now: their issuer's keys cannot be got",
		}
	}
	return grant, err
}

// bearer is the token in the header Authorization, "" if there is none.
func bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", unauthorized("invalid_request", "Authorization: want it once, as Bearer and a token")
	}
	return token, nil
}

// fromOwnPage reports whether a request, if a browser sent it, was made by a page
// of this origin or of one that is allowed by name. Only then is the visitor's
// cookie taken: any page can make a browser send it.
//
// Without Origin and Sec-Fetch-Site it is an old browser, or none at all. An old
// browser leaves Origin out of a request to the page's own origin, and of those of
// elements such as img and script, whose answers a page cannot read; by JSONP it
// could, so there cookies never count.
func (a *API) fromOwnPage(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if slices.Contains(a.o.Origins, origin) {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // none: the visitor typed the address
		return true
	case "":
		return origin == "" || ownOrigin(r, origin)
	}
	return false
}

// ownOrigin reports whether an origin is that of the address a request was sent
// to. Behind a proxy the scheme is not known here.
func ownOrigin(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (r.TLS == nil || u.Scheme == "https")
}

// anyPage reports whether pages of every origin may use this API, without
// cookies.
func (a *API) anyPage() bool { return slices.Contains(a.o.Origins, "*") }

// checkOrigin is the error of a WebSocket's handshake from a page that may not
// use this API. A browser asks nobody before it opens one to another origin
// (RFC 6455, section 10.2).
func (a *API) checkOrigin(r *http.Request) error {
	if a.anyPage() || a.fromOwnPage(r) {
		return nil
	}
	return &problem{
		Status: http.StatusForbidden, Code: codeForbidden,
		Detail: "pages of another origin may not open this WebSocket: see cors.origins",
	}
}

// authTimeout bounds what a token sent on a connection may take.
const authTimeout = 5 * time.Second

// socketGrant is what the client of a WebSocket's handshake may read.
func socketGrant(r *http.Request) (ws.Grant, error) { return readGrant(grantOf(r)), nil }

// socketAuth is what a token allows that a client sends on its WebSocket.
func (a *API) socketAuth(token string) (ws.Grant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), authTimeout)
	defer cancel()
	grant, err := a.check(ctx, token)
	return readGrant(&grant), err
}

func readGrant(g *access.Grant) ws.Grant {
	return ws.Grant{CheckRead: func(channel string) error { return readable(g, channel) }, Expires: g.Expires}
}
