package model

// Ablation is a law that a fleet does without, so that a comparison shows what
// the law earns.
type Ablation uint8

// The ablations. AblateNothing is every fleet that is not part of a comparison.
const (
	AblateNothing Ablation = iota
	// AblatePin: a cut takes three tenths of the window, whatever was measured.
	AblatePin
	// AblateEpochs: each refusal cuts, also that of an attempt admitted before
	// the last cut.
	AblateEpochs
)

// ablatedShare is what a cut keeps that measures nothing.
const ablatedShare PPM = 700_000

// Ablate switches a law off. It is for the simulator alone: it is not in the
// log and not part of the state, so a fold that goes on from a stored state
// has all its laws.
func (f *Fleet) Ablate(a Ablation) { f.ablated = a }

// lowered makes the cut of a refusal that measures nothing.
func (w *window) lowered(p *Params, now Nanos, top Milli) (before, after Milli, reason string) {
	before = w.value(p, top)
	after = min(max(Milli(scale(int64(before), ablatedShare)), p.WindowFloor), before)
	w.Ceiling = before
	w.cut(after, now, false)
	return before, after, "refused; three tenths less, by ablation"
}

// cutWindow makes the cut of a refusal.
func (f *Fleet) cutWindow(c *channel) (before, after Milli, reason string) {
	if f.ablated == AblatePin {
		return c.window.lowered(f.parOf(c), f.now, c.top())
	}
	return c.window.refused(f.parOf(c), f.now, c.top(), c.inflight, c.held)
}
