package ws

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Subprotocol is the name a client may ask for in Sec-WebSocket-Protocol.
const Subprotocol = "rejoin.v1"

// HandshakeError is a request that is not answered by an upgrade. It is the
// client's to mend; nothing has been written, but headers that belong to the
// status are set.
type HandshakeError struct {
	Status int // 400, 403 or 426
	Detail string
}

func (e *HandshakeError) Error() string { return e.Detail }

// checkHandshake says what keeps a request from being a WebSocket handshake
// (RFC 6455, section 4.2.1).
func checkHandshake(head http.Header, r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case r.ProtoMajor != 1:
		return &HandshakeError{http.StatusBadRequest, "a WebSocket is opened over HTTP/1.1, not " + r.Proto}
	case r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1):
		return &HandshakeError{http.StatusBadRequest, "a WebSocket is opened by GET over HTTP/1.1"}
	case !httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") ||
		!httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "websocket"):
		head.Set("Connection", "Upgrade") // RFC 9110, section 15.5.22
		head.Set("Upgrade", "websocket")
		return &HandshakeError{http.StatusUpgradeRequired,
			"this is a WebSocket: want the headers Connection: Upgrade and Upgrade: websocket, which a proxy in between must pass on; /v1/sse and /v1/poll do without"}
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		head.Set("Connection", "Upgrade")
		head.Set("Upgrade", "websocket")
		head.Set("Sec-WebSocket-Version", "13") // section 4.4
		return &HandshakeError{http.StatusUpgradeRequired, "Sec-WebSocket-Version: want 13"}
	case err != nil || len(key) != 16:
		return &HandshakeError{http.StatusBadRequest, "Sec-WebSocket-Key: want 16 bytes in base64"}
	}
	return nil
}

// SameOrigin reports whether a request comes from a page of this server, or
// from no page at all. A browser asks nobody before it opens a WebSocket to
// another origin, so the server has to look.
func SameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") { // proof against a proxy that changes Host
	case "same-origin", "none":
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// wantsSubprotocol reports whether the client asked for ours. Without it the
// answer names none, which is what section 4.2.2 wants.
func wantsSubprotocol(r *http.Request) bool {
	for _, list := range r.Header["Sec-Websocket-Protocol"] {
		for name := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(name) == Subprotocol {
				return true
			}
		}
	}
	return false
}
