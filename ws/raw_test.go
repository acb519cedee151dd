package ws

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// The opcodes of RFC 6455, section 5.2, and the client's side of the protocol
// once more, apart from the package's own code.
const (
	opContinue = 0x0
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xA
)

const final = 0x80

// frame is a frame of the server's.
type frame struct {
	op      byte
	payload string
}

func (f frame) String() string {
	switch f.op {
	case opText:
		return f.payload
	case opPing:
		return "ping " + f.payload
	case opPong:
		return "pong " + f.payload
	case opClose:
		if f.payload == "" {
			return "close"
		}
		return fmt.Sprintf("close %d", binary.BigEndian.Uint16([]byte(f.payload)))
	}
	return fmt.Sprintf("op %x: %q", f.op, f.payload)
}

// kind is the type of a text frame, or how the frame is written.
func (f frame) kind() string {
	var v struct{ Type string }
	if f.op == opText && json.Unmarshal([]byte(f.payload), &v) == nil {
		return v.Type
	}
	return f.String()
}

// fields are the members of a text frame.
func (f frame) fields(t *testing.T) map[string]any {
	t.Helper()
	require.Equal(t, byte(opText), f.op, f.String())
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(f.payload), &v), f.payload)
	return v
}

// readFrame reads one frame and insists on what a server must keep to: whole,
// unmasked, no reserved bit, the shortest length.
func readFrame(in *bufio.Reader) (frame, error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return frame{}, err
	}
	if head[0]&0xF0 != final || head[1]&0x80 != 0 {
		return frame{}, fmt.Errorf("header % x: not whole, reserved bits or masked", head)
	}
	size := uint64(head[1])
	shortest := uint64(0)
	switch size {
	case 126:
		var b [2]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return frame{}, err
		}
		size, shortest = uint64(binary.BigEndian.Uint16(b[:])), 126
	case 127:
		var b [8]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return frame{}, err
		}
		size, shortest = binary.BigEndian.Uint64(b[:]), 1<<16
	}
	if size < shortest || size > 1<<30 {
		return frame{}, fmt.Errorf("length %d written too long", size)
	}
	payload := make([]byte, size)
	_, err := io.ReadFull(in, payload)
	return frame{head[0] & 0xF, string(payload)}, err
}

// masked is a frame of a client's; first is its first byte.
func masked(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}

// closing is the payload of a close frame.
func closing(code uint16, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, code)) + reason
}

// rawClient is a client of which every byte is in the test's hand.
type rawClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func newRawClient(t *testing.T, conn net.Conn) *rawClient {
	t.Cleanup(func() { _ = conn.Close() })
	return &rawClient{t: t, conn: conn, in: bufio.NewReader(conn)}
}

func (c *rawClient) send(frames ...[]byte) {
	c.t.Helper()
	for _, f := range frames {
		_, err := c.conn.Write(f)
		require.NoError(c.t, err)
	}
}

func (c *rawClient) text(format string, args ...any) {
	c.t.Helper()
	c.send(masked(final|opText, fmt.Sprintf(format, args...)))
}

// next is the next frame; of those kinds, if any are given.
func (c *rawClient) next(kinds ...string) frame {
	c.t.Helper()
	for {
		f, err := readFrame(c.in)
		require.NoError(c.t, err, "before a frame %v", kinds)
		if len(kinds) == 0 {
			return f
		}
		for _, k := range kinds {
			if f.kind() == k {
				return f
			}
		}
	}
}

// ends insists that nothing more comes, by a FIN.
func (c *rawClient) ends() {
	c.t.Helper()
	rest, err := io.ReadAll(c.in)
	require.NoError(c.t, err)
	require.Empty(c.t, rest)
}
