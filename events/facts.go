package events

import (
	"math"

	"weir/model"
)

// maxCounts bounds a Summary: channels times classes.
const maxCounts = maxChannels * model.NumClasses

// maxParams bounds a ParamSet.
const maxParams = 1024

// start begins an entry of one section.
func start(b []byte, kind model.Kind) ([]byte, int) {
	return open(append(b, version, byte(kind)))
}

func encodeSummary(b []byte, s *model.Summary) []byte {
	b, at := start(b, model.KindSummary)
	b = appendSource(b, &s.Source)
	b = shut(appendUvarint(b, s.Span), at)

	b, at = open(b)
	b = appendUvarint(b, uint64(len(s.Counts)))
	var t table
	for i := range s.Counts {
		c := &s.Counts[i]
		b = t.ref(b, c.Channel, maxString)
		b = append(b, byte(c.Class))
		b = appendUvarint(b, c.Attempts)
		b = appendCount(b, c.In)
		b = appendCount(b, c.Out)
	}
	b = shut(b, at)

	b, at = open(b)
	return shut(appendPools(b, s.Pools), at)
}

func readSummary(r *reader) model.Fact {
	r.open()
	s := &model.Summary{Source: readSource(r)}
	s.Span = r.bounded("span", math.MaxInt64)
	if r.err == nil && (s.Span == 0 || s.Span > math.MaxInt64-s.Seq) {
		r.failf("span is %d from report %d", s.Span, s.Seq)
	}
	r.shut()

	r.open()
	n := r.length("counts", maxCounts, 5)
	s.Counts = list(&s.Counts, n)
	for i := range s.Counts {
		s.Counts[i] = readCount(r)
	}
	r.shut()

	r.open()
	n = r.length("pools", maxPools, 6)
	s.Pools = list(&s.Pools, n)
	readPools(r, s.Pools)
	r.shut()
	return s
}

func readCount(r *reader) model.SummaryCount {
	c := model.SummaryCount{
		Channel:  r.ref("channel", maxString),
		Class:    model.Class(r.octet()),
		Attempts: r.bounded("attempts", math.MaxInt64),
		In:       model.Tokens(r.count()),
		Out:      model.Tokens(r.count()),
	}
	if r.err == nil && (c.Class == 0 || int(c.Class) >= model.NumClasses) {
		r.failf("count of class %d", c.Class)
	}
	return c
}

// encodeParams writes parameters by name, so that one may be added or dropped
// anywhere in the declaration.
func encodeParams(b []byte, p *model.ParamSet) []byte {
	from := len(b)
	b, at := start(b, model.KindParams)
	b = appendString(b, p.Name, maxString)
	b = appendString(b, p.By, maxString)
	b = appendString(b, p.Why, maxText)
	specs := model.ParamSpecs()
	b = appendUvarint(b, uint64(len(specs)))
	for _, s := range specs {
		b = appendString(b, s.Name, maxString)
		b = appendSigned(b, s.Get(&p.Params))
	}
	b = shut(b, at)
	if p.Canary == "" && p.Guard == (model.Guard{}) {
		return b
	}
	added(b, from, 1)
	b, at = open(b)
	b = appendString(b, p.Canary, maxString)
	b = appendCount(b, p.Guard.For)
	b = appendSigned(b, int64(p.Guard.Goodput))
	return shut(appendSigned(b, int64(p.Guard.Waste)), at)
}

// readParams starts from the defaults. A parameter unknown to this version is
// skipped, and a value outside the range this version allows is moved to its
// nearer end: it was legal when it was written, and the log is not refused.
func readParams(r *reader) model.Fact {
	r.open()
	p := &model.ParamSet{
		Name:   r.str("name", maxString),
		By:     r.str("by", maxString),
		Why:    r.str("why", maxText),
		Params: model.DefaultParams(),
	}
	specs := model.ParamSpecs()
	for range r.length("parameters", maxParams, 2) {
		name := r.octets("parameter", maxString)
		value := r.signed()
		for _, s := range specs {
			if s.Name == string(name) {
				setWithin(&p.Params, s, value)
			}
		}
	}
	r.shut()
	if r.has(1) {
		r.open()
		p.Canary = r.str("canary", maxString)
		p.Guard = model.Guard{For: model.Nanos(r.count()), Goodput: model.PPM(r.signed()), Waste: model.PPM(r.signed())}
		r.shut()
	}
	return p
}

func setWithin(p *model.Params, s model.ParamSpec, value int64) {
	if err := s.Set(p, min(max(value, s.Min), s.Max)); err != nil {
		panic("events: BUG: value within its range refused: " + err.Error())
	}
}

func encodeCommand(b []byte, c *model.Command) []byte {
	b, at := start(b, model.KindCommand)
	b = append(b, byte(c.Command))
	b = appendString(b, c.Channel, maxString)
	b = appendString(b, c.Agent, MaxName)
	b = appendSigned(b, c.Value)
	b = appendCount(b, c.For)
	b = appendString(b, c.By, maxString)
	return shut(appendString(b, c.Why, maxText), at)
}

func readCommand(r *reader) model.Fact {
	r.open()
	c := &model.Command{
		Command: model.CommandKind(r.octet()),
		Channel: r.str("channel", maxString),
		Agent:   r.str("agent", MaxName),
		Value:   r.signed(),
		For:     model.Nanos(r.count()),
		By:      r.str("by", maxString),
		Why:     r.str("why", maxText),
	}
	if r.err == nil && c.Command == 0 {
		r.failf("command is 0")
	}
	r.shut()
	return c
}

func encodeLead(b []byte, l *model.Lead) []byte {
	b, at := start(b, model.KindLead)
	b = appendUvarint(b, l.Term)
	b = appendString(b, l.Controller, maxString)
	b = appendString(b, l.Version, maxString)
	return shut(appendUvarint(b, uint64(l.Laws)), at)
}

func readLead(r *reader) model.Fact {
	r.open()
	l := &model.Lead{
		Term:       r.uvarint(),
		Controller: r.str("controller", maxString),
		Version:    r.str("version", maxString),
		Laws:       uint32(r.bounded("laws", math.MaxUint32)),
	}
	r.shut()
	return l
}

func encodeTick(b []byte, t *model.Tick) []byte {
	b, at := start(b, model.KindTick)
	b = appendUvarint(b, t.Term)
	return shut(appendCount(b, t.Elapsed), at)
}

func readTick(r *reader) model.Fact {
	r.open()
	t := &model.Tick{Term: r.uvarint(), Elapsed: model.Nanos(r.count())}
	r.shut()
	return t
}

func encodeRebase(b []byte, a *model.Rebase) []byte {
	b, at := start(b, model.KindRebase)
	b = appendUvarint(b, a.Term)
	b = append(b, a.Digest[:]...)
	b = appendString(b, a.Reason, maxText)
	b = appendUvarint(b, uint64(len(a.Snapshot)))
	return shut(append(b, a.Snapshot...), at)
}

func readRebase(r *reader) model.Fact {
	r.open()
	a := &model.Rebase{Term: r.uvarint()}
	if len(r.data)-r.off < len(a.Digest) {
		r.failf("cut short")
	} else {
		r.off += copy(a.Digest[:], r.data[r.off:])
	}
	a.Reason = r.str("reason", maxText)
	if s := r.octets("snapshot", MaxSnapshot); len(s) > 0 {
		a.Snapshot = append([]byte(nil), s...)
	}
	r.shut()
	return a
}
