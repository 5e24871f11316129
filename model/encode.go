package model

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// The canonical encoding of a fleet is a list of parts, sorted by key:
//
//	agent/ID  channel/NAME  clock  config  day/ID  guard  head  params  past/NAME  pool/ID
//
// guard is there while a push is watched, past/NAME once there is one.
//
// A part is a version byte and the fields in a fixed order, numbers as
// varints (signed ones zigzag), strings and lists with their length first.
// Equal states have equal bytes, on every machine. The whole encoding is the
// parts one after another, each key and value with its length first; the
// digest is SHA-256 over it. The controller stores the parts that changed.

// stateVersion is the version of every part.
const stateVersion = 1

// ErrState says that an encoded state cannot be read.
var ErrState = errors.New("model: unreadable state")

// coder writes or reads one part; the same function does both, so that they
// cannot differ.
type coder struct {
	b       []byte
	at      int
	reading bool
	bad     bool
}

func num[T ~int | ~int64 | ~uint8 | ~uint32 | ~uint64](c *coder, v *T) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, int64(*v))
		return
	}
	x, n := binary.Varint(c.b[c.at:])
	if n <= 0 || int64(T(x)) != x {
		c.bad = true
		c.at = len(c.b)
		return
	}
	*v, c.at = T(x), c.at+n
}

func (c *coder) flag(v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	num(c, &n)
	*v = n == 1
	c.bad = c.bad || n > 1
}

func (c *coder) str(v *string) {
	n := len(*v)
	num(c, &n)
	if !c.reading {
		c.b = append(c.b, *v...)
		return
	}
	if n < 0 || n > len(c.b)-c.at {
		c.bad = true
		c.at = len(c.b)
		return
	}
	*v, c.at = string(c.b[c.at:c.at+n]), c.at+n
}

// list codes a slice whose elements take at least one byte each.
func list[T any](c *coder, v *[]T, each func(*coder, *T)) {
	n := len(*v)
	num(c, &n)
	if c.reading {
		if n < 0 || n > len(c.b)-c.at {
			c.bad = true
			c.at = len(c.b)
			return
		}
		*v = nil
		for range n {
			var e T
			if each(c, &e); c.bad {
				return
			}
			*v = append(*v, e)
		}
		return
	}
	for i := range *v {
		each(c, &(*v)[i])
	}
}

func (c *coder) version() {
	v := uint8(stateVersion)
	num(c, &v)
	c.bad = c.bad || v != stateVersion
}

func (c *coder) head(f *Fleet) {
	num(c, &f.now)
	num(c, &f.last)
	num(c, &f.seq)
	c.flag(&f.started)
	num(c, &f.term)
	c.str(&f.controller)
	num(c, &f.laws)
	num(c, &f.noRaise)
	num(c, &f.configSeq)
	num(c, &f.paramsSeq)
	for _, n := range []*uint64{
		&f.counters.Records, &f.counters.Attempts, &f.counters.Repeated, &f.counters.Lost,
		&f.counters.Unreadable, &f.counters.Unknown, &f.counters.UnknownChannel,
		&f.counters.DuplicateAgents, &f.counters.TooManyAgents, &f.counters.StaleTerm,
		&f.counters.StaleRefusals, &f.counters.Forgotten, &f.counters.Rebases, &f.counters.BadRebases,
	} {
		num(c, n)
	}
}

func (c *coder) params(s *ParamSet) {
	c.str(&s.Name)
	c.str(&s.By)
	c.str(&s.Why)
	specs := ParamSpecs()
	n := len(specs)
	num(c, &n)
	c.bad = c.bad || n != len(specs)
	if c.bad {
		return
	}
	for _, spec := range specs {
		num(c, spec.field(&s.Params))
	}
}

func (c *coder) channel(ch *channel) {
	num(c, &ch.at)
	num(c, &ch.fresh)
	w := &ch.window
	num(c, &w.Base)
	num(c, &w.Grown)
	for _, v := range []*bool{&w.Slow, &w.Used, &w.Calm, &w.ByLatency, &w.Drained} {
		c.flag(v)
	}
	num(c, &w.Epoch)
	num(c, &w.CutAt)
	num(c, &w.Ceiling)
	num(c, &w.Goal)
	num(c, &w.Series)
	num(c, &w.Double)
	num(c, &w.RoundAt)
	num(c, &w.RoundBase)
	num(c, &w.RoundDone)
	c.flag(&w.Drain)
	num(c, &w.Tried)
	num(c, &w.TriedAt)
	num(c, &w.TakenAt)
	num(c, &w.Level)
	num(c, &w.StepAt)
	num(c, &w.StepMost)
	num(c, &w.Refusal)
	num(c, &w.Known)
	num(c, &w.Least)
	c.flag(&w.Works)
	num(c, &w.Times)
	num(c, &w.Near)
	l := &ch.latency
	list(c, &l.Cells, func(c *coder, cell *latencyCell) {
		num(c, &cell.Key)
		num(c, &cell.Base)
		num(c, &cell.Count)
	})
	num(c, &l.Recent)
	num(c, &l.Mean)
	num(c, &l.Learned)
	num(c, &l.Samples)
	num(c, &l.Spread)
	num(c, &l.Drift)
	num(c, &l.DriftAt)
	num(c, &l.Took)
	num(c, &l.From)
	num(c, &l.Since)
	num(c, &l.TrialWindow)
	num(c, &l.TrialRatio)
	num(c, &l.TrialShare)
	c.flag(&l.Exploring)
	c.flag(&l.Anew)
	num(c, &l.Futile)
	num(c, &l.SeriesFrom)
	num(c, &l.Explored)
	num(c, &l.Wary)
	num(c, &l.Proven)
	num(c, &l.ProvenAt)
	num(c, &l.Raise.From)
	num(c, &l.Raise.First)
	num(c, &l.Raise.Ratio)
	num(c, &l.Raise.Share)
	num(c, &l.Raise.Since)
	num(c, &l.Raise.Wait)
	num(c, &l.Raise.Next)
	num(c, &ch.weight.Base)
	num(c, &ch.weight.At)
	num(c, &ch.weight.Epoch)
	num(c, &ch.weight.TransportAt)
	c.flag(&ch.weight.Transport)
	num(c, &ch.weight.Forced)
	c.breaker(&ch.breaker)
	fl := &ch.flow
	num(c, &fl.At)
	num(c, &fl.Before)
	num(c, &fl.Started)
	num(c, &fl.StartedBefore)
	num(c, &fl.Best)
	c.flag(&ch.paced)
	ev := &ch.evidence
	num(c, &ev.Score)
	num(c, &ev.At)
	num(c, &ev.Taken)
	num(c, &ev.InFlight)
	num(c, &ev.Spread)
	num(c, &ev.Count)
	num(c, &ch.hold)
	num(c, &ch.pause)
	num(c, &ch.forced)
	num(c, &ch.mode)
	c.flag(&ch.hasMode)
	list(c, &ch.leases, (*coder).lease)
	for _, n := range []*int64{&ch.inflight, &ch.held, &ch.accepted, &ch.queued} {
		num(c, n)
	}
	for i := range ch.counts {
		num(c, &ch.counts[i])
	}
	num(c, &ch.tokensIn)
	num(c, &ch.cached)
	num(c, &ch.tokensOut)
	num(c, &ch.toldWindow)
	num(c, &ch.toldWeight)
	num(c, &ch.revision)
	c.str(&ch.reason)
	list(c, &ch.cuts, func(c *coder, cut *Cut) {
		num(c, &cut.Revision)
		num(c, &cut.Num)
		num(c, &cut.Den)
	})
	c.flag(&ch.wants)
	c.flag(&ch.urgent)
	num(c, &ch.passAt)
	num(c, &ch.turn)
	num(c, &ch.answer)
	num(c, &ch.sought)
}

func (c *coder) breaker(b *breaker) {
	num(c, &b.State)
	num(c, &b.Until)
	num(c, &b.Wait)
	num(c, &b.Consecutive)
	c.flag(&b.Forced)
	// Most channels never fail: only seconds that hold something are kept.
	var seconds []breakerSecond
	for _, s := range b.Seconds {
		if s != (breakerSecond{}) {
			seconds = append(seconds, s)
		}
	}
	list(c, &seconds, func(c *coder, s *breakerSecond) {
		num(c, &s.Second)
		num(c, &s.OK)
		num(c, &s.Fail)
		num(c, &s.Vague)
	})
	for _, s := range seconds {
		b.Seconds[((s.Second%breakerSeconds)+breakerSeconds)%breakerSeconds] = s
	}
	num(c, &b.Probe.ID)
	c.str(&b.Probe.Agent)
	num(c, &b.Probe.Deadline)
}

func (c *coder) lease(l *lease) {
	c.str(&l.agent)
	for _, n := range []*int64{&l.slots, &l.safe, &l.offset} {
		num(c, n)
	}
	num(c, &l.rev)
	list(c, &l.marks, func(c *coder, m *leaseMark) {
		num(c, &m.rev)
		for _, n := range []*int64{&m.slots, &m.safe, &m.offset} {
			num(c, n)
		}
	})
	for _, n := range []*int64{&l.inflight, &l.held, &l.accepted, &l.queued, &l.urgent} {
		num(c, n)
	}
	num(c, &l.waiting)
	num(c, &l.wouldRefuse)
	num(c, &l.turn)
	num(c, &l.since)
	c.flag(&l.away)
	num(c, &l.until)
	c.flag(&l.returned)
	num(c, &l.seen)
}

func (c *coder) limit(l *limit) {
	for _, n := range []*int64{&l.Rate, &l.Burst, &l.Level, &l.Rem, &l.Told, &l.Hinted, &l.Learned, &l.Started, &l.Sum, &l.Sure, &l.Drift} {
		num(c, n)
	}
	num(c, &l.Heard)
	num(c, &l.Belied)
	num(c, &l.Share)
	num(c, &l.Since)
	num(c, &l.Grown)
	num(c, &l.Busy)
	num(c, &l.Held)
	num(c, &l.Over)
	c.flag(&l.Binding)
}

func (c *coder) poolHold(h *poolHold) {
	num(c, &h.until)
	num(c, &h.series)
	num(c, &h.tried)
	num(c, &h.mark)
	num(c, &h.took)
	c.flag(&h.trial)
	c.flag(&h.proven)
}

func (c *coder) pool(p *pool) {
	c.limit(&p.requests)
	c.limit(&p.tokens)
	c.poolHold(&p.hold)
	s := &p.suspect
	c.flag(&s.Requests)
	c.flag(&s.Guessed)
	num(c, &s.At)
	num(c, &s.Count)
	for i := range s.Last {
		num(c, &s.Started[i])
		num(c, &s.Last[i])
		num(c, &s.Spread[i])
		num(c, &s.Most[i])
	}
	num(c, &p.next)
	c.flag(&p.lacking)
	c.flag(&p.told.requests)
	c.flag(&p.told.tokens)
	num(c, &p.at)
	list(c, &p.grants, func(c *coder, g *poolGrant) {
		c.str(&g.agent)
		for _, n := range []*int64{
			&g.requests, &g.tokens, &g.usedRequests, &g.usedTokens,
			&g.waitingRequests, &g.waitingTokens, &g.next, &g.passed, &g.heldRequests, &g.heldTokens,
			&g.safeRequests, &g.safeTokens,
		} {
			num(c, n)
		}
		num(c, &g.rev)
		c.flag(&g.pending)
		num(c, &g.turn)
		num(c, &g.away)
	})
	num(c, &p.turn)
	num(c, &p.typical)
	c.flag(&p.wants)
	if c.reading && c.at == len(c.b) {
		return // written before there was a mix
	}
	num(c, &p.mix.Input)
	num(c, &p.mix.Output)
}

func (c *coder) member(m *member) {
	for _, n := range []*uint64{&m.boot, &m.next, &m.base, &m.folded, &m.quoted, &m.lost, &m.repeated} {
		num(c, n)
	}
	c.str(&m.version)
	num(c, &m.mode)
	for _, at := range []*Nanos{&m.heard, &m.until, &m.lasts, &m.told, &m.ends, &m.warned} {
		num(c, at)
	}
	for _, v := range []*bool{&m.left, &m.away, &m.forgotten, &m.returned} {
		c.flag(v)
	}
}

func write(code func(*coder)) []byte {
	var c coder
	c.version()
	code(&c)
	return c.b
}

func read(key string, b []byte, code func(*coder)) error {
	c := coder{b: b, reading: true}
	c.version()
	if !c.bad {
		code(&c)
	}
	if c.bad || c.at != len(b) {
		return fmt.Errorf("part %q: %w", key, ErrState)
	}
	return nil
}

// keys returns the keys of all parts, sorted.
func (f *Fleet) keys() []string {
	keys := make([]string, 0, 4+len(f.channels)+len(f.pools)+len(f.members)+len(f.days))
	keys = append(keys, "config", "head", "params")
	if f.guard != nil {
		keys = append(keys, "guard")
	}
	if f.wall != 0 {
		keys = append(keys, "clock")
	}
	for _, d := range f.days {
		keys = append(keys, "day/"+d.name)
	}
	for _, m := range f.members {
		keys = append(keys, "agent/"+m.agent)
	}
	for _, c := range f.channels {
		keys = append(keys, "channel/"+c.name)
		if len(c.past) > 0 {
			keys = append(keys, "past/"+c.name)
		}
	}
	for _, p := range f.pools {
		keys = append(keys, "pool/"+p.name)
	}
	slices.Sort(keys)
	return keys
}

// part encodes one part, or returns nil if there is none of that key.
func (f *Fleet) part(key string) []byte {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case "head":
		return write(func(c *coder) { c.head(f) })
	case "config":
		return write(func(c *coder) { c.config(f.config) })
	case "params":
		return write(func(c *coder) { c.params(&f.params) })
	case "guard":
		if f.guard != nil {
			return write(func(c *coder) { c.guard(f.guard) })
		}
	case "past":
		if ch := f.channel(name); ch != nil && len(ch.past) > 0 {
			return write(func(c *coder) { list(c, &ch.past, (*coder).past) })
		}
	case "clock":
		if f.wall != 0 {
			return write(func(c *coder) { c.clock(f) })
		}
	case "day":
		if d := f.day(name); d != nil {
			return write(func(c *coder) { c.day(d) })
		}
	case "agent":
		if m := f.member(name); m != nil {
			return write(func(c *coder) { c.member(m) })
		}
	case "channel":
		if ch := f.channel(name); ch != nil {
			return write(func(c *coder) { c.channel(ch) })
		}
	case "pool":
		if p := f.pool(name); p != nil {
			return write(func(c *coder) { c.pool(p) })
		}
	}
	return nil
}

// Parts yields the whole state, sorted by key.
func (f *Fleet) Parts() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, key := range f.keys() {
			if !yield(key, f.part(key)) {
				return
			}
		}
	}
}

// DirtyParts yields the parts that changed since Clean, sorted by key; a part
// that is gone has a nil value.
func (f *Fleet) DirtyParts() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		keys := slices.Collect(maps.Keys(f.dirty.keys))
		if f.dirty.head {
			keys = append(keys, "head", "clock")
		}
		if f.dirty.whole {
			keys = append(keys, f.keys()...)
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if !yield(key, f.part(key)) {
				return
			}
		}
	}
}

// Clean forgets what changed: it was stored.
func (f *Fleet) Clean() {
	d := &f.dirty
	clear(d.keys)
	*d = dirtySet{keys: d.keys, round: d.round + 1}
}

// dirtySet is which parts changed since the last Clean. What has a mark of its
// own is put in once: it remembers the round in which it was.
type dirtySet struct {
	keys  map[string]struct{}
	head  bool
	whole bool
	round uint64 // counts Clean
}

// dirtyMark is what a part's owner remembers: one more than the round in which
// it was last put in, and its key.
type dirtyMark struct {
	round uint64
	key   string
}

func (d *dirtySet) mark(key string) {
	if d.keys == nil {
		d.keys = map[string]struct{}{}
	}
	d.keys[key] = struct{}{}
}

// once marks the part of that kind and name, whose mark is m.
func (d *dirtySet) once(m *dirtyMark, kind, name string) {
	if m.round == d.round+1 {
		return
	}
	if m.round = d.round + 1; m.key == "" {
		m.key = kind + name
	}
	d.mark(m.key)
}

func (d *dirtySet) gone(key string)    { d.mark(key) }
func (d *dirtySet) all()               { d.whole = true }
func (d *dirtySet) channel(c *channel) { d.once(&c.mark, "channel/", c.name) }
func (d *dirtySet) pool(p *pool)       { d.once(&p.mark, "pool/", p.name) }
func (d *dirtySet) member(m *member)   { d.once(&m.mark, "agent/", m.agent) }

// goneFrom marks the parts that old has and f has not.
func (d *dirtySet) goneFrom(old, f *Fleet) {
	for _, key := range old.keys() {
		if f.part(key) == nil {
			d.mark(key)
		}
	}
}

// FleetFromParts restores a state from all its parts, in any order.
func FleetFromParts(parts iter.Seq2[string, []byte]) (*Fleet, error) {
	f := NewFleet()
	stored := map[string][]byte{}
	for key, value := range parts {
		stored[key] = slices.Clone(value)
	}
	for _, key := range []string{"head", "config", "params"} {
		if stored[key] == nil {
			return nil, fmt.Errorf("part %q is missing: %w", key, ErrState)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		if err := f.restore(key, stored[key]); err != nil {
			return nil, err
		}
	}
	for _, c := range f.channels {
		i := slices.IndexFunc(f.config.Channels, func(cfg ChannelConfig) bool { return cfg.Name == c.name })
		if i < 0 {
			return nil, fmt.Errorf("channel %q is not configured: %w", c.name, ErrState)
		}
		c.cfg = &f.config.Channels[i]
		if c.wants {
			f.want(c)
		}
	}
	for _, p := range f.pools {
		if p.wants {
			f.wantPool(p)
		}
	}
	for _, p := range f.pools {
		p.limits = f.config.limitsOf(p.name)
	}
	f.attachDays()
	f.hash = f.params.Params.Hash()
	f.cell = f.now / pastEvery
	f.alarm = 0
	f.Clean()
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return f, nil
}

// restore reads one part into f. Keys come sorted, so lists stay sorted.
func (f *Fleet) restore(key string, value []byte) error {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case "head":
		return read(key, value, func(c *coder) { c.head(f) })
	case "config":
		f.config = &Config{}
		return read(key, value, func(c *coder) { c.config(f.config) })
	case "params":
		return read(key, value, func(c *coder) { c.params(&f.params) })
	case "guard":
		f.guard = &guard{}
		return read(key, value, func(c *coder) { c.guard(f.guard) })
	case "past":
		ch := f.channel(name)
		if ch == nil {
			return fmt.Errorf("part %q is of no channel: %w", key, ErrState)
		}
		return read(key, value, func(c *coder) { list(c, &ch.past, (*coder).past) })
	case "clock":
		return read(key, value, func(c *coder) { c.clock(f) })
	case "day":
		d := &day{name: name}
		f.days = append(f.days, d)
		return read(key, value, func(c *coder) { c.day(d) })
	case "agent":
		m := &member{agent: name}
		f.members = append(f.members, m)
		return read(key, value, func(c *coder) { c.member(m) })
	case "channel":
		ch := &channel{name: name}
		f.channels = append(f.channels, ch)
		err := read(key, value, func(c *coder) { c.channel(ch) })
		ch.derive()
		return err
	case "pool":
		p := &pool{name: name}
		f.pools = append(f.pools, p)
		f.poolRound++
		return read(key, value, func(c *coder) { c.pool(p) })
	}
	return fmt.Errorf("part %q is of an unknown kind: %w", key, ErrState)
}

// AppendBinary appends the canonical encoding of the whole state to b.
func (f *Fleet) AppendBinary(b []byte) []byte {
	for key, value := range f.Parts() {
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = append(b, key...)
		b = binary.AppendUvarint(b, uint64(len(value)))
		b = append(b, value...)
	}
	return b
}

// Digest returns the SHA-256 of the canonical encoding.
func (f *Fleet) Digest() [32]byte { return sha256.Sum256(f.AppendBinary(nil)) }

// DecodeFleet is the inverse of AppendBinary. It returns ErrState for bytes
// that are not the encoding of a state.
func DecodeFleet(b []byte) (*Fleet, error) {
	bad := false
	next := func() []byte {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			bad = true
			return nil
		}
		v := b[k : k+int(n)]
		b = b[k+int(n):]
		return v
	}
	f, err := FleetFromParts(func(yield func(string, []byte) bool) {
		for len(b) > 0 && !bad {
			key := next()
			value := next()
			if bad || !yield(string(key), value) {
				return
			}
		}
	})
	if err == nil && bad {
		err = ErrState
	}
	return f, err
}
