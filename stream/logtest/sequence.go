package logtest

import (
	"fmt"
	"math/rand/v2"
)

// kind is what one step of a sequence does.
type kind uint8

const (
	opAppend kind = iota // a: server, b: how many
	opRepeat             // a: server, b: which of the last idempotency keys
	opRead               // a: reader, b: page size, c: begins live or judged
	opJoin               // a: reader, b: live, or the earliest
	opDelete             // a: server
	opTrim               // b: how many stay
	opClock              // b, c: forth or back, how far
	// the rest needs Faults
	opForget       // a: server
	opLoseMessages //
	opLoseState    //
	opWipe         //
	opSave         // a: slot
	opRestore      // a: slot
	opForeign      // b: its id
	kinds
)

var kindNames = [kinds]string{
	"append", "repeat", "read", "join", "delete", "trim", "clock",
	"forget", "lose messages", "lose state", "wipe", "save", "restore", "foreign",
}

// weights say how often a step comes, in a store that can be hurt and in one
// that cannot.
var weights = [kinds][2]int{
	opAppend: {26, 26}, opRepeat: {3, 3}, opRead: {22, 22}, opJoin: {6, 6}, opDelete: {2, 2}, opTrim: {5, 0}, opClock: {10, 8},
	opForget: {6, 0}, opLoseMessages: {1, 0}, opLoseState: {4, 0}, opWipe: {2, 0}, opSave: {4, 0}, opRestore: {4, 0}, opForeign: {5, 0},
}

// op is one step. Its arguments mean something in every state, so that a
// sequence with any steps left out is a sequence.
type op struct {
	kind    kind
	a, b, c uint8
}

func (o op) String() string { return fmt.Sprintf("%s(%d,%d,%d)", kindNames[o.kind], o.a, o.b, o.c) }

// sequence is what a seed stands for.
func sequence(seed uint64, hurts bool) []op {
	r := rand.New(rand.NewPCG(seed, 1))
	column := 1
	if hurts {
		column = 0
	}
	total := 0
	for _, w := range weights {
		total += w[column]
	}
	ops := make([]op, 6+r.IntN(26))
	for i := range ops {
		n := r.IntN(total)
		k := kind(0)
		for n >= weights[k][column] {
			n -= weights[k][column]
			k++
		}
		x := r.Uint32()
		ops[i] = op{k, uint8(x), uint8(x >> 8), uint8(x >> 16)}
	}
	return ops
}

// shrink finds a short sequence that still fails, by leaving out ever smaller
// stretches and then making arguments zero. It stops when its tries are used up.
func shrink(ops []op, tries int, fails func([]op) bool) []op {
	try := func(candidate []op) bool {
		tries--
		if tries < 0 || !fails(candidate) {
			return false
		}
		ops = candidate
		return true
	}
	for size := len(ops) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(ops); {
			if !try(append(append([]op(nil), ops[:from]...), ops[from+size:]...)) {
				from += size
			}
		}
	}
	for size := 1; size <= 2; size++ { // pairs too: a save and its restore
		for from := 0; from+size <= len(ops); {
			if !try(append(append([]op(nil), ops[:from]...), ops[from+size:]...)) {
				from++
			}
		}
	}
	for i := range ops {
		for _, simpler := range []op{
			{ops[i].kind, 0, 0, 0},
			{ops[i].kind, 0, ops[i].b, ops[i].c}, {ops[i].kind, ops[i].a, 0, ops[i].c}, {ops[i].kind, ops[i].a, ops[i].b, 0},
		} {
			if simpler != ops[i] {
				candidate := append([]op(nil), ops...)
				candidate[i] = simpler
				try(candidate)
			}
		}
	}
	return ops
}
