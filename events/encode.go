package events

import (
	"weir/model"
)

// Limits of what is encoded. What is longer is cut by the encoder and refused
// by the decoder.
const (
	maxCode   = 64   // a provider's own code
	maxString = 256  // names, rules, routes, tenants, reasons of limits
	maxText   = 4096 // what people write: why, a fixed answer
)

// appendUvarint appends v, seven bits a byte, lowest first, the highest bit of
// each byte but the last set.
func appendUvarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// narrow is the width in bits up to which a number takes at most eight bytes.
const narrow = 56

// appendCount appends a number that cannot be negative; a negative one is
// written as 0.
func appendCount[T ~int64](b []byte, v T) []byte {
	return appendUvarint(b, uint64(max(v, 0)))
}

// appendOptional appends a number of which every negative value means "none".
func appendOptional[T ~int64](b []byte, v T) []byte {
	return appendUvarint(b, uint64(max(v, -1))+1)
}

// appendSigned appends a number of either sign, small ones short.
func appendSigned(b []byte, v int64) []byte { return appendUvarint(b, zigzag(v)) }

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendString(b []byte, s string, most int) []byte {
	s = s[:min(len(s), most)]
	b = appendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// added marks the entry that begins at start as one with the first n additions.
func added(b []byte, start, n int) { b[start] = byte(generation<<4 | n) }

// open begins a section and returns its place for shut.
func open(b []byte) ([]byte, int) { return append(b, 0), len(b) + 1 }

// shut writes the length of the section that began at start before it. Most
// sections are short, so one byte is kept free and a longer one is moved.
func shut(b []byte, start int) []byte {
	n := len(b) - start
	var head [10]byte
	h := appendUvarint(head[:0], uint64(n))
	if more := len(h) - 1; more > 0 {
		b = append(b, head[:more]...)
		copy(b[start+more:], b[start:start+n])
	}
	copy(b[start-1:], h)
	return b
}

// scanned is how many strings are looked up by scanning. A report has about a
// dozen (routes, tenants, rules, codes); below twenty a scan beats a map.
const scanned = 20

// table holds the strings of one entry: each is written once, at its first
// use, and is its number afterwards. Number 0 is the empty string.
type table struct {
	n     int             // strings so far
	strs  [scanned]string // the first ones
	index map[string]int  // numbers of all, once there are more
}

// ref appends the number of s and, at its first use, s itself.
func (t *table) ref(b []byte, s string, most int) []byte {
	if s == "" {
		return append(b, 0)
	}
	s = s[:min(len(s), most)]
	if n := t.find(s); n > 0 {
		return appendUvarint(b, uint64(n))
	}
	t.add(s)
	b = appendUvarint(b, uint64(t.n))
	b = appendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// find returns the number of s, 0 when it is new.
func (t *table) find(s string) int {
	if t.index != nil {
		return t.index[s]
	}
	for i := range t.n {
		if t.strs[i] == s {
			return i + 1
		}
	}
	return 0
}

func (t *table) add(s string) {
	if t.n == scanned {
		t.index = make(map[string]int, 4*scanned)
		for i, s := range t.strs {
			t.index[s] = i + 1
		}
	}
	t.n++
	if t.index != nil {
		t.index[s] = t.n
		return
	}
	t.strs[t.n-1] = s
}

// Encode appends the encoding of a fact to dst and returns the result. The
// same fact gives the same bytes. Numbers that cannot be negative are written
// as 0 when they are, strings are cut at their limit, and the lists of a
// configuration are written sorted; Decode refuses what breaks other limits.
// It panics on a Fact that is not of package model.
func Encode(dst []byte, f model.Fact) []byte {
	switch f := f.(type) {
	case *model.Attempts:
		return encodeAttempts(dst, f)
	case *model.Summary:
		return encodeSummary(dst, f)
	case *model.Config:
		return encodeConfig(append(dst, version, byte(model.KindConfig)), len(dst), f)
	case *model.ParamSet:
		return encodeParams(dst, f)
	case *model.Command:
		return encodeCommand(dst, f)
	case *model.Lead:
		return encodeLead(dst, f)
	case *model.Tick:
		return encodeTick(dst, f)
	case *model.Rebase:
		return encodeRebase(dst, f)
	case *model.Unknown:
		return append(dst, version, byte(f.K))
	}
	panic("events: BUG: fact of a foreign type")
}
