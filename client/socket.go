package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/coder/websocket"
)

// Close codes of the contract.
const (
	closeExpired    websocket.StatusCode = 4001
	closeNotAllowed websocket.StatusCode = 4003
)

// socket is one WebSocket connection; it returns why it ended.
func (s *subscription) socket(ctx context.Context, server *url.URL) error {
	l := open(ctx, s.c.o.Timeout)
	defer l.close()
	query := s.query()
	query.Set("heartbeat", s.hold.String())
	head := http.Header{}
	if err := s.c.authorize(l.ctx, head); err != nil {
		return l.why(err)
	}
	u := server.JoinPath("/v1/ws")
	u.RawQuery = query.Encode()
	conn, resp, err := websocket.Dial(l.ctx, u.String(), &websocket.DialOptions{
		HTTPClient:   s.c.http,
		HTTPHeader:   head,
		Subprotocols: []string{"rejoin.v1"},
		OnPingReceived: func(context.Context, []byte) bool {
			l.await(2 * s.hold)
			return true
		},
	})
	l.heard()
	if err != nil {
		if resp != nil && resp.Body != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return errorOf(resp)
		}
		return l.why(unreached(server, err))
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1) // bounded by readFrame, which says so as all transports do
	s.c.answered(server)
	for {
		data, err := s.readFrame(l, conn)
		if err != nil {
			return closedBy(l.why(err))
		}
		var o struct {
			Type string `json:"type"`
		}
		if err := parse(data, "frame", &o); err != nil {
			return err
		}
		if err := s.frame(l, o.Type, data, ""); err != nil {
			return err
		}
	}
}

// readFrame reads one text frame, and gives the connection up when nothing comes
// for twice the heartbeat.
func (s *subscription) readFrame(l *line, conn *websocket.Conn) ([]byte, error) {
	l.await(2 * s.hold)
	defer l.heard()
	_, r, err := conn.Reader(l.ctx)
	if err != nil {
		return nil, err
	}
	most := int64(s.c.o.MaxMessageBytes)
	data, err := io.ReadAll(io.LimitReader(&awaited{r, l, s}, most+1))
	if err == nil && int64(len(data)) > most {
		err = tooLarge(s.c.o.MaxMessageBytes)
	}
	return data, err
}

// closedBy says a close code in this package's words (RFC 6455, section 7.4).
func closedBy(err error) error {
	e, ok := errors.AsType[websocket.CloseError](err)
	if !ok {
		return err
	}
	switch e.Code {
	case closeExpired:
		return errExpired
	case closeNotAllowed, websocket.StatusPolicyViolation:
		return &Error{Status: http.StatusForbidden, Code: CodeForbidden, Detail: e.Reason}
	}
	return fmt.Errorf("%w: %d %s", errCut, e.Code, e.Reason)
}
