package events

import (
	"math"

	"weir/model"
)

// Outputs have kinds of their own, above all kinds of facts, so that one can
// never be taken for a fact. Their numbers never change.
const (
	firstOutput  model.Kind = 0x80
	outputLimits byte       = 0x81
	outputLease  byte       = 0x82
	outputTerm   byte       = 0x83
	outputConfig byte       = 0x84
)

func kindName(kind byte) string {
	switch kind {
	case outputLimits:
		return "limits"
	case outputLease:
		return "lease"
	case outputTerm:
		return "term"
	case outputConfig:
		return "config output"
	}
	return model.Kind(kind).String()
}

// EncodeLimits appends the encoding of a broadcast to dst.
func EncodeLimits(dst []byte, l *model.LimitSet) []byte {
	b, at := open(append(dst, version, outputLimits))
	b = appendUvarint(b, l.Term)
	b = appendUvarint(b, l.Seq)
	b = appendUvarint(b, uint64(len(l.Channels)))
	for i := range l.Channels {
		b = appendLimit(b, &l.Channels[i])
	}
	return appendDays(shut(b, at), l, len(dst))
}

// appendDays appends the section with which channels wait for a day to end and
// how days stand, if there is anything to say; the entry begins at start.
func appendDays(b []byte, l *model.LimitSet, start int) []byte {
	var spent []int
	for i := range l.Channels {
		if l.Channels[i].Spent {
			spent = append(spent, i)
		}
	}
	if len(spent)+len(l.Quotas) == 0 {
		return b
	}
	added(b, start, 1)
	b, at := open(b)
	b = appendUvarint(b, uint64(len(spent)))
	for _, i := range spent {
		b = appendUvarint(b, uint64(i))
	}
	b = appendUvarint(b, uint64(len(l.Quotas)))
	for i := range l.Quotas {
		q := &l.Quotas[i]
		b = appendString(b, q.Name, maxString)
		b = append(b, byte(q.Stage))
		b = appendCount(b, q.Reset)
		for _, list := range []*[model.NumDaily]int64{&q.Used, &q.Soft, &q.Hard} {
			for _, n := range list {
				b = appendCount(b, n)
			}
		}
		b = appendString(b, q.Reason, maxString)
	}
	return shut(b, at)
}

func readDays(r *reader, l *model.LimitSet) {
	if !r.has(1) {
		return
	}
	r.open()
	for range r.length("spent channels", maxChannels, 1) {
		if i := r.bounded("channel", maxChannels); i < uint64(len(l.Channels)) {
			l.Channels[i].Spent = true
		} else {
			r.failf("channel %d of %d is spent", i, len(l.Channels))
		}
	}
	l.Quotas = list(&l.Quotas, r.length("quotas", maxQuotas, 13))
	for i := range l.Quotas {
		q := &l.Quotas[i]
		q.Name = r.str("quota", maxString)
		q.Stage = model.Stage(r.bounded("stage", uint64(model.StageSpent)))
		q.Reset = model.Nanos(r.count())
		for _, list := range []*[model.NumDaily]int64{&q.Used, &q.Soft, &q.Hard} {
			for n := range list {
				list[n] = r.count()
			}
		}
		q.Reason = r.str("reason", maxString)
	}
	r.shut()
}

// maxQuotas bounds the days of one message: those of channels, groups, tenants.
const maxQuotas = maxChannels + maxGroups + maxTenants

func appendLimit(b []byte, c *model.ChannelLimit) []byte {
	b = appendString(b, c.Channel, maxString)
	b = appendUvarint(b, c.Revision)
	b = appendCount(b, c.Window)
	b = appendUvarint(b, c.Epoch)
	b = appendCount(b, min(c.Weight, model.One))
	b = append(b, byte(c.Breaker))
	b = appendCount(b, c.Wait)
	b = append(b, byte(c.Mode))
	cuts := c.Cuts[max(0, len(c.Cuts)-model.MaxCuts):]
	b = append(b, byte(len(cuts)))
	for _, cut := range cuts {
		b = appendUvarint(b, cut.Revision)
		b = appendCount(b, cut.Num)
		b = appendCount(b, cut.Den)
	}
	return appendString(b, c.Reason, maxString)
}

// DecodeLimits is the inverse of EncodeLimits. The error is a *DecodeError.
func DecodeLimits(data []byte) (*model.LimitSet, error) {
	l := new(model.LimitSet)
	err := decodeOutput(data, outputLimits, func(r *reader) {
		r.open()
		l.Term, l.Seq = r.uvarint(), r.uvarint()
		l.Channels = list(&l.Channels, r.length("channels", maxChannels, 10))
		for i := range l.Channels {
			l.Channels[i] = readLimit(r)
		}
		r.shut()
		readDays(r, l)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func readLimit(r *reader) model.ChannelLimit {
	return model.ChannelLimit{
		Channel:  r.str("channel", maxString),
		Revision: r.uvarint(),
		Window:   model.Milli(r.count()),
		Epoch:    r.uvarint(),
		Weight:   model.PPM(r.bounded("weight", uint64(model.One))),
		Breaker:  model.BreakerState(r.bounded("breaker", uint64(model.BreakerMisconfigured))),
		Wait:     model.Nanos(r.count()),
		Mode:     model.Mode(r.bounded("mode", uint64(model.ModeObserve))),
		Cuts:     readCuts(r),
		Reason:   r.str("reason", maxString),
	}
}

func readCuts(r *reader) []model.Cut {
	var cuts []model.Cut
	cuts = list(&cuts, r.length("cuts", model.MaxCuts, 3))
	for i := range cuts {
		cut := model.Cut{Revision: r.uvarint(), Num: r.count(), Den: r.count()}
		if r.err == nil && (cut.Den == 0 || cut.Num > cut.Den) {
			r.failf("cut keeps %d of %d", cut.Num, cut.Den)
		}
		cuts[i] = cut
	}
	return cuts
}

// EncodeLease appends the encoding of an agent's lease to dst.
func EncodeLease(dst []byte, l *model.Lease) []byte {
	b, at := open(append(dst, version, outputLease))
	b = appendString(b, l.Agent, MaxName)
	b = appendUvarint(b, l.Boot)
	b = appendUvarint(b, l.Term)
	b = appendUvarint(b, l.Seq)
	b = appendUvarint(b, l.Quotes)
	b = shut(appendCount(b, l.Duration), at)

	b, at = open(b)
	b = appendUvarint(b, uint64(len(l.Channels)))
	for i := range l.Channels {
		b = appendGrant(b, &l.Channels[i])
	}
	b = shut(b, at)

	b, at = open(b)
	b = appendUvarint(b, uint64(len(l.Pools)))
	for i := range l.Pools {
		b = appendPoolGrant(b, &l.Pools[i])
	}
	return appendScarce(shut(b, at), len(dst), l.Pools)
}

// appendScarce appends the section with the pools that lack tokens, if there
// are any; the entry begins at start.
func appendScarce(b []byte, start int, pools []model.PoolGrant) []byte {
	n := 0
	for i := range pools {
		if pools[i].Scarce {
			n++
		}
	}
	if n == 0 {
		return b
	}
	added(b, start, 1)
	b, at := open(b)
	b = appendUvarint(b, uint64(n))
	for i := range pools {
		if pools[i].Scarce {
			b = appendUvarint(b, uint64(i))
		}
	}
	return shut(b, at)
}

func readScarce(r *reader, pools []model.PoolGrant) {
	if !r.has(1) {
		return
	}
	r.open()
	for range r.length("scarce pools", maxPools, 1) {
		if i := r.bounded("pool", maxPools); i < uint64(len(pools)) {
			pools[i].Scarce = true
		} else {
			r.failf("pool %d of %d is scarce", i, len(pools))
		}
	}
	r.shut()
}

func appendGrant(b []byte, g *model.ChannelGrant) []byte {
	b = appendString(b, g.Channel, maxString)
	b = appendUvarint(b, g.Revision)
	b = appendCount(b, g.Slots)
	b = appendCount(b, min(g.Safe, g.Slots))
	b = appendCount(b, g.Offset)
	b = appendUvarint(b, g.Epoch)
	b = appendUvarint(b, g.Probe)
	return appendCount(b, g.ProbeWithin)
}

func appendPoolGrant(b []byte, g *model.PoolGrant) []byte {
	b = appendString(b, g.Pool, maxString)
	b = appendUvarint(b, g.Revision)
	b = appendOptional(b, g.Requests)
	b = appendOptional(b, g.Tokens)
	b = appendCount(b, g.SafeRequests)
	return appendCount(b, g.SafeTokens)
}

// DecodeLease is the inverse of EncodeLease. The error is a *DecodeError.
func DecodeLease(data []byte) (*model.Lease, error) {
	l := new(model.Lease)
	err := decodeOutput(data, outputLease, func(r *reader) {
		r.open()
		l.Agent = r.str("agent", MaxName)
		l.Boot, l.Term, l.Seq, l.Quotes = r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint()
		l.Duration = model.Nanos(r.count())
		r.shut()

		r.open()
		l.Channels = list(&l.Channels, r.length("channels", maxChannels, 8))
		for i := range l.Channels {
			l.Channels[i] = readGrant(r)
		}
		r.shut()

		r.open()
		l.Pools = list(&l.Pools, r.length("pools", maxPools, 6))
		for i := range l.Pools {
			l.Pools[i] = readPoolGrant(r)
		}
		r.shut()
		readScarce(r, l.Pools)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func readGrant(r *reader) model.ChannelGrant {
	g := model.ChannelGrant{
		Channel:     r.str("channel", maxString),
		Revision:    r.uvarint(),
		Slots:       r.count(),
		Safe:        r.count(),
		Offset:      r.count(),
		Epoch:       r.uvarint(),
		Probe:       r.uvarint(),
		ProbeWithin: model.Nanos(r.count()),
	}
	if r.err == nil && (g.Safe > g.Slots || g.Offset > math.MaxInt64-g.Slots) {
		r.failf("grant of %d slots, %d safe, from %d", g.Slots, g.Safe, g.Offset)
	}
	return g
}

func readPoolGrant(r *reader) model.PoolGrant {
	return model.PoolGrant{
		Pool:         r.str("pool", maxString),
		Revision:     r.uvarint(),
		Requests:     r.optional(),
		Tokens:       model.Tokens(r.optional()),
		SafeRequests: model.Milli(r.count()),
		SafeTokens:   model.Tokens(r.count()),
	}
}

// EncodeTerm appends the encoding of a leader's announcement to dst.
func EncodeTerm(dst []byte, t *model.TermNotice) []byte {
	b, at := open(append(dst, version, outputTerm))
	b = appendUvarint(b, t.Term)
	b = appendUvarint(b, t.Seq)
	return shut(appendString(b, t.Controller, maxString), at)
}

// DecodeTerm is the inverse of EncodeTerm. The error is a *DecodeError.
func DecodeTerm(data []byte) (*model.TermNotice, error) {
	t := new(model.TermNotice)
	err := decodeOutput(data, outputTerm, func(r *reader) {
		r.open()
		t.Term, t.Seq = r.uvarint(), r.uvarint()
		t.Controller = r.str("controller", maxString)
		r.shut()
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// EncodeConfig appends the encoding of a configuration as it is sent to
// agents to dst; seq is the record that put it in force.
func EncodeConfig(dst []byte, seq uint64, c *model.Config) []byte {
	b, at := open(append(dst, version, outputConfig))
	b = shut(appendUvarint(b, seq), at)
	return encodeConfig(b, len(dst), c)
}

// DecodeConfig is the inverse of EncodeConfig. The error is a *DecodeError.
func DecodeConfig(data []byte) (seq uint64, c *model.Config, err error) {
	err = decodeOutput(data, outputConfig, func(r *reader) {
		r.open()
		seq = r.uvarint()
		r.shut()
		c = readConfig(r)
	})
	if err != nil {
		return 0, nil, err
	}
	return seq, c, nil
}

// decodeOutput checks that data is an output of that kind and has read take
// it apart.
func decodeOutput(data []byte, kind byte, read func(*reader)) error {
	var r reader
	r.begin(data)
	if got := r.head(); r.err == nil && got != kind {
		r.failf("kind %d, want %d (%s)", got, kind, kindName(kind))
	}
	if r.err == nil {
		read(&r)
	}
	r.finish()
	if r.err != nil {
		return r.err
	}
	return nil
}

// Deliver decodes an output and calls the handler for its kind, if there is
// one. An output of a kind this version does not know is left out.
func Deliver(data []byte, h Handler) error {
	if len(data) < 2 {
		_, err := DecodeTerm(data)
		return err
	}
	switch data[1] {
	case outputLimits:
		return deliver(data, DecodeLimits, h.Limits)
	case outputLease:
		return deliver(data, DecodeLease, h.Lease)
	case outputTerm:
		return deliver(data, DecodeTerm, h.Term)
	case outputConfig:
		seq, c, err := DecodeConfig(data)
		if err == nil && h.Config != nil {
			h.Config(seq, c)
		}
		return err
	}
	return nil
}

func deliver[T any](data []byte, decode func([]byte) (T, error), to func(T)) error {
	v, err := decode(data)
	if err == nil && to != nil {
		to(v)
	}
	return err
}
