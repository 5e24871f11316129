package model

// weight decides where to go first among a tier's channels, never how much.
//
//	failure   w ← max(floor, decay·w), once per epoch
//	recovery  w(t) = 1 − (1 − w₀)·2^−(t−t₀)/halfLife
//
// The value is computed from the last failure's anchor and never re-anchored
// in between, so that how often it is read does not matter. The floor is above
// zero: a channel that gets nothing can prove nothing.
type weight struct {
	// Base is the weight at instant At.
	Base PPM
	At   Nanos
	// Epoch is the last channel epoch that was charged, plus 1; 0 for none.
	Epoch uint64
	// TransportAt is the send time of the last transport failure charged.
	TransportAt Nanos
	// Transport is set when there was one.
	Transport bool
	// Forced is an operator's weight, negative for none.
	Forced PPM
}

func newWeight() weight { return weight{Base: One, Forced: -1} }

// value returns the weight at now.
func (w *weight) value(p *Params, now Nanos) PPM {
	if w.Forced >= 0 {
		return w.Forced
	}
	missing := int64(One - w.Base)
	span := max(now-w.At, 0)
	halves := int64(span / p.WeightHalfLife)
	if halves >= 30 {
		return One
	}
	missing >>= halves
	// Between two halvings the chord: exact at both ends, within 6 % between.
	rest := int64(span % p.WeightHalfLife)
	missing -= mulDiv(missing, rest, 2*int64(p.WeightHalfLife))
	return One - PPM(missing)
}

// overloaded charges a failing epoch once, and an older one never.
func (w *weight) overloaded(p *Params, now Nanos, epoch uint64) (before, after PPM, changed bool) {
	if epoch < w.Epoch {
		return 0, 0, false
	}
	w.Epoch = epoch + 1
	return w.decay(p, now)
}

// transport charges a broken connection, at most once per TransportEvery of
// send time.
func (w *weight) transport(p *Params, now, sent Nanos) (before, after PPM, changed bool) {
	if w.Transport && sent < w.TransportAt+p.TransportEvery {
		return 0, 0, false
	}
	w.Transport, w.TransportAt = true, sent
	return w.decay(p, now)
}

func (w *weight) decay(p *Params, now Nanos) (before, after PPM, changed bool) {
	forced := w.Forced
	w.Forced = -1
	before = w.value(p, now)
	after = max(PPM(scale(int64(before), p.WeightDecay)), p.WeightFloor)
	w.Base, w.At, w.Forced = after, now, forced
	return before, after, after != before && forced < 0
}

func (c *coder) weight(w *weight) {
	num(c, &w.Base)
	num(c, &w.At)
	num(c, &w.Epoch)
	num(c, &w.TransportAt)
	c.flag(&w.Transport)
	num(c, &w.Forced)
}
