package events

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"weir/model"
)

// version is the layout this package writes where nothing was added: the
// generation in the upper four bits, additions within it in the lower. A reader
// takes every addition of its own generation. An entry that uses none of them
// is written as it always was.
const version = generation << 4

const (
	generation = 1
	additions  = 2
)

// MaxSnapshot is the largest encoded Rebase, in bytes. One that is larger
// than MaxEntry fits a journal, not a log.
const MaxSnapshot = 64 << 20

// DecodeError says where and why bytes are not an entry.
type DecodeError struct {
	// Kind is the name of the fact or output, "entry" before it is known.
	Kind string
	// Version is the first byte of the entry: generation and additions.
	Version byte
	// Offset is the byte at which the fault was found.
	Offset int
	// Reason is what is wrong there.
	Reason string
}

// Error implements error.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s version %d.%d at byte %d: %s", e.Kind, e.Version>>4, e.Version&15, e.Offset, e.Reason)
}

// Decode returns the fact that data encodes. A kind of a newer version is a
// *model.Unknown. The error is a *DecodeError. Nothing of data is kept.
func Decode(data []byte) (model.Fact, error) {
	var d Decoder
	return d.Decode(data)
}

// Decoder decodes many entries with little garbage. It belongs to one
// goroutine. The zero value is ready; NewDecoder also shares strings.
type Decoder struct {
	r     reader
	spare *spare
}

// NewDecoder returns a decoder that keeps the strings it meets, up to a bound,
// so that names which come again cost no memory.
func NewDecoder() *Decoder {
	d := new(Decoder)
	d.r.known = make(map[string]string)
	return d
}

// Decode is as the function Decode, except that a *model.Attempts and all it
// holds is good only until the next call.
func (d *Decoder) Decode(data []byte) (model.Fact, error) {
	r := &d.r
	r.begin(data)
	f := d.fact()
	r.finish()
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}

// Record reads an entry of a log and checks that its fact may stand on its
// subject: an agent speaks on its own, the controller on the control subject.
// Where the entry cannot be read the record has no fact and the error says why.
func (d *Decoder) Record(e Entry) (model.Record, error) {
	rec := model.Record{Seq: e.Seq, Time: e.Time}
	f, err := d.Decode(e.Data)
	if err != nil {
		return rec, fmt.Errorf("read entry %d: %w", e.Seq, err)
	}
	_, agent, ok := ParseLogSubject(e.Subject)
	if !ok {
		return rec, fmt.Errorf("read entry %d: subject %q is none of a log", e.Seq, e.Subject)
	}
	if speaker(f) != agent {
		return rec, fmt.Errorf("read entry %d: a %s of %q on subject %q", e.Seq, f.Kind(), speaker(f), e.Subject)
	}
	rec.Fact = f
	return rec, nil
}

// speaker returns the agent a fact comes from, "" for the controller.
func speaker(f model.Fact) string {
	switch f := f.(type) {
	case *model.Attempts:
		return f.Agent
	case *model.Summary:
		return f.Agent
	}
	return ""
}

func (d *Decoder) fact() model.Fact {
	r := &d.r
	kind := model.Kind(r.head())
	if r.err != nil {
		return nil
	}
	switch kind {
	case model.KindAttempts:
		return d.readAttempts()
	case model.KindSummary:
		return readSummary(r)
	case model.KindConfig:
		return readConfig(r)
	case model.KindParams:
		return readParams(r)
	case model.KindCommand:
		return readCommand(r)
	case model.KindLead:
		return readLead(r)
	case model.KindTick:
		return readTick(r)
	case model.KindRebase:
		return readRebase(r)
	default:
		return readUnknown(r, kind)
	}
}

// readUnknown keeps a kind of a newer version and skips what it says.
func readUnknown(r *reader, kind model.Kind) model.Fact {
	if kind == 0 || kind >= firstOutput {
		r.off = 1
		r.failf("kind %d is no fact", kind)
		return nil
	}
	r.off = len(r.data)
	return &model.Unknown{K: kind}
}

// reader takes an entry apart. The first fault sticks: it is kept with its
// offset, and every later read yields zero.
type reader struct {
	data    []byte // up to the end of the open section
	off     int
	full    []byte // the whole entry
	version byte
	kind    string
	err     *DecodeError

	table []string // the entry's strings, see table
	known map[string]string
	held  int // bytes of the strings in known
}

func (r *reader) begin(data []byte) {
	*r = reader{data: data, full: data, kind: "entry", table: r.table[:0], known: r.known, held: r.held}
}

// head reads version and kind.
func (r *reader) head() byte {
	if len(r.data) < 2 {
		r.failf("%d bytes are no entry", len(r.data))
		return 0
	}
	r.version = r.data[0]
	kind := r.data[1]
	r.kind = kindName(kind)
	most := MaxEntry
	if model.Kind(kind) == model.KindRebase {
		most = MaxSnapshot
	}
	switch {
	case len(r.data) > most:
		r.failf("%d bytes, at most %d", len(r.data), most)
	case r.version>>4 != generation && r.kind != "unknown":
		r.failf("this version reads generation %d", generation)
	}
	r.off = 2
	return kind
}

// newer reports whether the entry may hold additions unknown to this version.
func (r *reader) newer() bool { return r.version&15 > additions }

// has reports whether the section of addition n follows.
func (r *reader) has(n byte) bool { return r.err == nil && r.version&15 >= n }

// finish checks that the entry ends where its sections do.
func (r *reader) finish() {
	if r.err == nil && !r.newer() && r.off != len(r.full) {
		r.failf("%d bytes left over", len(r.full)-r.off)
	}
}

// open enters the next section.
func (r *reader) open() {
	n := r.uvarint()
	if n > uint64(len(r.data)-r.off) {
		r.failf("section of %d bytes, %d are left", n, len(r.data)-r.off)
		return
	}
	r.data = r.full[:r.off+int(n)]
}

// shut leaves a section. What a newer version added at its end is skipped.
func (r *reader) shut() {
	if r.err != nil {
		return
	}
	if r.off != len(r.data) && !r.newer() {
		r.failf("section has %d bytes left over", len(r.data)-r.off)
		return
	}
	r.off = len(r.data)
	r.data = r.full
}

func (r *reader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = &DecodeError{Kind: r.kind, Version: r.version, Offset: r.off, Reason: fmt.Sprintf(format, args...)}
	}
	r.data, r.off = r.full[:0], 0
}

func (r *reader) octet() byte {
	if r.off >= len(r.data) {
		r.failf("cut short")
		return 0
	}
	c := r.data[r.off]
	r.off++
	return c
}

// uvarint reads a number. The usual one, up to eight bytes and not at the very
// end, is taken from one word: its last byte is the first without the highest
// bit, and the seven bits of each are moved together in three steps.
func (r *reader) uvarint() uint64 {
	const high = 0x8080808080808080
	if r.off+8 > len(r.data) {
		return r.slowUvarint()
	}
	x := binary.LittleEndian.Uint64(r.data[r.off:])
	if x&0x80 == 0 {
		r.off++
		return x & 0x7f
	}
	stop := ^x & high
	n := bits.TrailingZeros64(stop) / 8
	x &= (stop ^ (stop - 1)) &^ high
	if stop == 0 || x>>(8*n) == 0 {
		return r.slowUvarint()
	}
	r.off += n + 1
	x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
	x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
	return x&0x000000000fffffff | x&0x0fffffff00000000>>4
}

// slowUvarint reads a number byte by byte. Only the shortest form of a number
// is taken, so that there is one encoding of each.
func (r *reader) slowUvarint() uint64 {
	var v uint64
	for i, c := range r.data[r.off:] {
		if i == 9 && c > 1 {
			r.failf("number over 64 bits")
			return 0
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 {
				r.failf("number is not in its shortest form")
				return 0
			}
			r.off += i + 1
			return v
		}
	}
	r.failf("cut short")
	return 0
}

// count reads a number that is never negative and fits an int64.
func (r *reader) count() int64 {
	v := r.uvarint()
	if int64(v) < 0 {
		r.failf("number %d over 63 bits", v)
		return 0
	}
	return int64(v)
}

// optional reads a number that may be "none", which is -1.
func (r *reader) optional() int64 { return int64(r.bounded("number", 1<<63) - 1) }

func (r *reader) signed() int64 { return unzigzag(r.uvarint()) }

// bounded reads a number up to most.
func (r *reader) bounded(what string, most uint64) uint64 {
	v := r.uvarint()
	if v > most {
		r.failf("%s is %d, at most %d", what, v, most)
		return 0
	}
	return v
}

// length reads how many elements follow, each of at least least bytes, so that
// a list is never made longer than its bytes can fill.
func (r *reader) length(what string, most, least int) int {
	n := r.uvarint()
	if left := len(r.data) - r.off; n > uint64(most) || n > uint64(left/least) {
		r.failf("%d %s, at most %d, %d bytes are left", n, what, most, left)
		return 0
	}
	return int(n)
}

func (r *reader) boolean(what string) bool { return r.bounded(what, 1) == 1 }

// octets reads a string without keeping it.
func (r *reader) octets(what string, most int) []byte {
	n := r.uvarint()
	if n > uint64(most) || n > uint64(len(r.data)-r.off) {
		r.failf("%s of %d bytes, at most %d, %d are left", what, n, most, len(r.data)-r.off)
		return nil
	}
	s := r.data[r.off : r.off+int(n)]
	r.off += int(n)
	return s
}

func (r *reader) str(what string, most int) string { return r.intern(r.octets(what, most)) }

// Bounds of the strings a decoder keeps.
const (
	maxKnown     = 4096
	maxKnownSize = 256 << 10
)

// intern returns b as a string, the same one as before when it is known.
func (r *reader) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if r.known == nil || len(b) > maxString {
		return string(b)
	}
	if s, ok := r.known[string(b)]; ok {
		return s
	}
	if len(r.known) >= maxKnown || r.held+len(b) > maxKnownSize {
		clear(r.known) // a fleet has few names: whoever fills this sends noise
		r.held = 0
	}
	s := string(b)
	r.known[s] = s
	r.held += len(s)
	return s
}

// ref reads a string by its number in the entry's table.
func (r *reader) ref(what string, most int) string {
	n := r.uvarint()
	switch {
	case n == 0:
		return ""
	case n <= uint64(len(r.table)):
		s := r.table[n-1]
		if len(s) > most {
			r.failf("%s of %d bytes, at most %d", what, len(s), most)
			return ""
		}
		return s
	case n > uint64(len(r.table))+1:
		r.failf("%s is string %d of %d", what, n, len(r.table))
		return ""
	}
	b := r.octets(what, most)
	if r.err == nil && len(b) == 0 {
		r.failf("%s is a new string without bytes", what)
		return ""
	}
	s := r.intern(b)
	r.table = append(r.table, s)
	return s
}

// list returns n elements of *kept, which grows for them, or nil for none, so
// that what is decoded equals what was encoded.
func list[T any](kept *[]T, n int) []T {
	if n == 0 {
		return nil
	}
	if cap(*kept) < n {
		*kept = make([]T, n)
	}
	return (*kept)[:n]
}
