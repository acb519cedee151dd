package delivery

// Pieces gathers what one write sends: encodings shared by many connections,
// taken as they are, and bytes that are this connection's own.
type Pieces struct {
	list [][]byte
	own  []byte // where the connection's own bytes stand; used again
	size int
	// mine[i]: piece i stands in own and must be copied to be kept.
	mine []bool
}

// Shared adds bytes that nobody changes.
func (p *Pieces) Shared(b []byte) {
	if len(b) > 0 {
		p.list, p.mine = append(p.list, b), append(p.mine, false)
		p.size += len(b)
	}
}

// Own adds what add appends to the slice it is given.
func (p *Pieces) Own(add func([]byte) []byte) {
	from := len(p.own)
	p.own = add(p.own)
	if b := p.own[from:]; len(b) > 0 {
		if last := len(p.list) - 1; last >= 0 && p.mine[last] && len(p.list[last]) > 0 && from > 0 && &p.own[from-1] == &p.list[last][len(p.list[last])-1] {
			p.list[last] = p.own[from-len(p.list[last]):]
		} else {
			p.list, p.mine = append(p.list, b), append(p.mine, true)
		}
		p.size += len(b)
	}
}

// Size is the number of bytes gathered.
func (p *Pieces) Size() int { return p.size }

// reset empties p and keeps its memory, unless it grew large.
func (p *Pieces) reset() {
	clear(p.list)
	p.list, p.mine, p.size = p.list[:0], p.mine[:0], 0
	if p.own = p.own[:0]; cap(p.own) > keepOwn {
		p.own = nil
	}
}

const keepOwn = 64 << 10

// rest is what stands behind the first n bytes, free of p's own memory.
func (p *Pieces) rest(n int) [][]byte {
	var out [][]byte
	for i, b := range p.list {
		if n >= len(b) {
			n -= len(b)
			continue
		}
		b = b[n:]
		n = 0
		if p.mine[i] {
			b = append([]byte(nil), b...)
		}
		out = append(out, b)
	}
	return out
}
