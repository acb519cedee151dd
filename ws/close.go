package ws

import (
	"github.com/gobwas/ws"

	"rejoin/delivery"
)

// Close codes of the contract; those of RFC 6455 have names in gobwas/ws.
const (
	closeExpired    ws.StatusCode = 4001
	closeNotAllowed ws.StatusCode = 4003
	closeNoProgress ws.StatusCode = 4008
)

// ending is how a connection is closed.
type ending struct {
	code   ws.StatusCode // 0: without a code
	reason string
	last   []byte // the frame told before
	// then is whether the client's close frame is waited for. It is not when it
	// has come; and when what the client sends is no longer understood, it would
	// not be seen, so that a FIN must end the wait.
	then delivery.Parting
}

// append adds the last frames of a connection.
func (e *ending) append(dst []byte) []byte {
	return appendClose(append(dst, e.last...), e.code, e.reason)
}

// The ends of a client that makes no progress.
var (
	unanswered = ending{code: closeNoProgress, reason: "a ping was not answered", then: delivery.AwaitClose}
	stuck      = ending{code: closeNoProgress, reason: "nothing was taken for too long", then: delivery.AwaitClose}
)

// farewell is how a connection is closed behind the items of its last batch.
func farewell(items []delivery.Item) ending {
	for i := range items {
		switch items[i].Kind {
		case delivery.Error:
			return ending{code: ws.StatusInternalServerError, reason: "a channel cannot be read", then: delivery.AwaitClose}
		case delivery.Expired:
			return ending{code: closeExpired, reason: "the token ran out", then: delivery.AwaitClose}
		case delivery.End, delivery.Unsubscribed:
			// With the last batch they are told only when no channel is left
			// that has not ended.
			return ending{code: ws.StatusNormalClosure, reason: "every channel has ended", then: delivery.AwaitClose}
		}
	}
	return ending{code: ws.StatusGoingAway, reason: "this server moves its connections: come back", then: delivery.AwaitClose}
}
