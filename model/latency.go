package model

import "math/bits"

// latency compares how long calls take with how long they used to take, like
// with like: streamed calls by their time to the first token at that input
// size, others by their whole time at that input and output size (sizes in
// powers of two). A channel whose prompts merely got longer is measured in
// other cells, so its window does not suffer.
//
// ratio = mean of (sample ÷ its cell's baseline), an exponential mean over
// about 16 samples. The baseline follows a fall at once and a rise by at most
// driftPerMinute, so that a slow decay over minutes is seen as one.
//
// A cut because of latency is an experiment. If load made the calls slow, they
// get faster in proportion; if they stay as slow, something else did: the
// window gets back what it had, and the present becomes the baseline.
type latency struct {
	// Cells are the baselines by size class, sorted by Key, at most maxCells.
	Cells []latencyCell
	// Recent is the mean ratio over the cells, Samples how many it holds
	// since From.
	Recent  PPM
	Samples int64
	// Spread is the mean distance of a sample from Recent.
	Spread PPM
	// Mean is the mean ratio over meanGain samples, which Drift follows;
	// Learned how many it holds, at most meanGain.
	Mean    PPM
	Learned int64
	// Anew is set while Mean begins anew after a cut that helped: the baseline
	// falls to it once it holds meanGain samples. Until then, or Wary, nothing
	// grows: it would be measured under another load.
	Anew bool
	// Drift is what the baselines are multiplied with; DriftAt when it was
	// last raised.
	Drift   PPM
	DriftAt Nanos
	// Took is the mean time of a call.
	Took Nanos
	// From is since when calls are judged that were sent from Since on: before,
	// after a cut, those end that ran under the load before it, and then the
	// shortest of the new ones.
	From, Since Nanos
	// TrialWindow is the window before the cut on trial, 0 for none;
	// TrialRatio the ratio that made the cut, TrialShare what it left.
	TrialWindow            Milli
	TrialRatio, TrialShare PPM
	// Exploring is set when no rise made the cut on trial.
	Exploring bool
	// Futile counts the cuts in a row that did not help, SeriesFrom is the
	// window before the first of them, 0 for none.
	Futile     int64
	SeriesFrom Milli
	// Explored is when a refused window was last tried at less; see explore.
	Explored Nanos
	// Wary is until when, after such a cut, no news is not good news.
	Wary Nanos
	// Proven is the most that was in flight at once while latency was calm,
	// as of ProvenAt.
	Proven   Milli
	ProvenAt Nanos
	// Raise is the test of a larger window.
	Raise raise
}

// latencyCell is the baseline of one size class.
type latencyCell struct {
	Key   uint32
	Base  Nanos
	Count int64
}

const (
	// maxCells bounds the size classes of one channel. Real traffic of one
	// route fills 10 to 40.
	maxCells = 128
	// cellSamples are averaged before a cell judges.
	cellSamples = 12
	// recentGain and mostGain bound the inverse weight of a new sample in
	// Recent.
	recentGain = 16
	mostGain   = 128
	// trialGain is the same while a cut is on trial.
	trialGain = 64
	// spreadGain is the same for Spread.
	spreadGain = 128
	// meanGain is the inverse weight of a new sample in Mean: a baseline that
	// falls at once and rises slowly must follow something nearly without
	// noise, or it sinks to the noise's lower edge.
	meanGain = 128
	// driftPerMinute bounds how fast a baseline may rise.
	driftPerMinute PPM = 20_000
	// highLeast is how many samples a mean that is high holds at least.
	highLeast = 4
	// learnt is how many samples Mean must hold before anything is judged.
	learnt = 64
	// maxRatio bounds a single sample, so that one stuck call does not weigh
	// like a hundred slow ones.
	maxRatio = 8 * One
	// settleTimes is how many times a mean call the calls of before a cut
	// need to end, and the first that end are no longer the shortest.
	settleTimes = 2
	// settleMost bounds that.
	settleMost = Minute
	// exploreEvery is how often a refused window is tried at exploreShare.
	exploreEvery     = 10 * Minute
	exploreShare PPM = 800_000
	// exploreLeast is the window below which it is not: few calls take long to
	// tell, and a slot is much of it.
	exploreLeast Milli = 16_000
	// seriesShare is the share of the window before a series of cuts below which
	// it does not go on: load cannot be the cause.
	seriesShare PPM = 300_000
	// wary is how long a trial waits for calls that tell its result: a channel
	// that nobody uses proves nothing.
	wary = Minute
)

func newLatency(now Nanos) latency { return latency{Recent: One, Mean: One, Drift: One, DriftAt: now} }

// cellKey returns the size class of an attempt.
func cellKey(a *Attempt) (key uint32, sample Nanos) {
	in := uint32(log2(a.In))
	if a.FirstToken > 0 {
		return 1<<16 | in<<8, a.FirstToken
	}
	return in<<8 | uint32(log2(a.Out)), a.Took
}

// log2 is the binary logarithm, rounded down, 0 for less than 2.
func log2(n Tokens) int { return bits.Len64(uint64(max(n, 1))) - 1 }

// cell returns the cell of key, making it while there is room; nil otherwise.
func (l *latency) cell(key uint32) *latencyCell {
	lo, hi := 0, len(l.Cells)
	for lo < hi {
		mid := (lo + hi) / 2
		if l.Cells[mid].Key < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(l.Cells) && l.Cells[lo].Key == key {
		return &l.Cells[lo]
	}
	if len(l.Cells) >= maxCells {
		return nil
	}
	l.Cells = append(l.Cells, latencyCell{})
	copy(l.Cells[lo+1:], l.Cells[lo:])
	l.Cells[lo] = latencyCell{Key: key}
	return &l.Cells[lo]
}

// sample takes a successful attempt.
func (l *latency) sample(a *Attempt, now, sent Nanos) {
	if !a.UsageKnown {
		return // without sizes there is nothing to compare with
	}
	key, took := cellKey(a)
	c := l.cell(key)
	if took <= 0 || c == nil {
		return
	}
	if l.Took == 0 {
		l.Took = a.Took
	}
	l.Took += (min(a.Took, longest) - l.Took) / recentGain
	if c.Count < cellSamples {
		// A cell that starts under load must not take the load for normal: it
		// is as far from its baseline as the others are from theirs.
		normal := Nanos(mulDiv(int64(took), int64(One), int64(max(l.Recent, 1))))
		c.Base += (normal - c.Base) / Nanos(c.Count+1)
		c.Count++
		return
	}
	if sent < l.Since || now < min(l.From, l.Since+settleTimes*l.Took) {
		return // or those of before the cut took longer than the new ones do
	}
	r := min(PPM(mulDiv(int64(took), int64(One), int64(max(c.Base, 1)))), maxRatio)
	l.Samples++
	off := max(r-l.Recent, l.Recent-r)
	l.Spread += (off - l.Spread) / spreadGain
	l.Recent += (r - l.Recent) / PPM(min(l.Samples, l.gain()))
	l.Learned = min(l.Learned+1, meanGain)
	l.Mean += (r - l.Mean) / PPM(l.Learned)
	l.drift(now)
}

// gain returns the inverse weight of a new sample in Recent: more where samples
// differ more, so that six deviations of the mean are 0.22, from where on a
// ratio is high by default: n = (6 · 1.25 · Spread ÷ 0.22)² ÷ 2.
func (l *latency) gain() int64 {
	least := int64(recentGain)
	if l.TrialWindow > 0 {
		least = trialGain
	}
	thousandth := int64(l.Spread / 1000)
	return min(max(thousandth*thousandth*581/1_000_000, least), mostGain)
}

// drift lets the baseline follow: down at once, up slowly.
func (l *latency) drift(now Nanos) {
	// The first calls that end are the shortest: until many have, the
	// baseline is simply their mean.
	switch {
	case l.Anew && l.Learned < meanGain:
		return
	case l.Anew:
		// A plain mean, as uncertain as an exponential one of half as many.
		l.Anew, l.Learned = false, meanGain
		if edge := l.Mean + noise(l.Spread, meanGain/2); edge < l.Drift {
			l.Drift, l.DriftAt = edge, now
			return
		}
	case l.Learned < meanGain:
		l.Drift, l.DriftAt = l.Mean, now
		return
	}
	// A fall within the mean's own noise is none: followed, it would take the
	// baseline to the noise's lower edge.
	if edge := l.Mean + 3*noise(l.Spread, meanGain); edge <= l.Drift {
		l.Drift, l.DriftAt = edge, now
		return
	}
	if l.Mean <= l.Drift {
		l.DriftAt = now
		return
	}
	room := PPM(mulDiv(int64(driftPerMinute), int64(now-l.DriftAt), int64(Minute)))
	if room > 0 {
		l.Drift += min(room, l.Mean-l.Drift)
		l.DriftAt = now
	}
}

// ratio returns the recent latency over its baseline.
func (l *latency) ratio() PPM {
	return PPM(mulDiv(int64(l.Recent), int64(One), int64(max(l.Drift, 1))))
}

// long returns the same over the many samples of Mean.
func (l *latency) long() PPM {
	return PPM(mulDiv(int64(l.Mean), int64(One), int64(max(l.Drift, 1))))
}

// slowness returns how much slower than its baseline the channel works; ok is
// false before enough was seen.
func (l *latency) slowness(p *Params) (ratio PPM, ok bool) {
	return l.ratio(), l.Samples >= p.LatencySamples && (l.Learned >= learnt || l.Anew)
}

// calm reports whether latency allows growth: not while a cut is on trial, nor
// soon after one before calls have ended that tell.
func (l *latency) calm(p *Params, now Nanos) bool {
	ratio, ok := l.slowness(p)
	if !ok {
		return now >= l.Wary
	}
	return !l.onTrial(now) && (!l.Anew || now >= l.Wary) && l.Raise.From == 0 && ratio <= max(p.LatencyCalm, One+2*l.noise())
}

// high reports whether latency asks for a cut: over the parameter and beyond
// what noise does to a mean that is looked at a thousand times. That says by
// itself how many samples it takes: calls that are five times as slow are few.
func (l *latency) high(p *Params) (PPM, bool) {
	ratio := l.ratio()
	known := l.Samples >= highLeast && (l.Learned >= learnt || l.Anew)
	return ratio, known && ratio >= max(p.LatencyHigh, One+6*l.noise())
}

// noise returns the standard deviation of Recent. While a mean is young, it is
// that of half as many samples.
func (l *latency) noise() PPM {
	n := min(l.Samples, l.gain())
	if n == l.Samples {
		n = (n + 1) / 2
	}
	return noise(l.Spread, max(n, 1))
}

// noise returns the standard deviation of an exponential mean of inverse
// weight n over samples of that mean distance: a sample's own deviation is
// 1.25 times the distance, the mean's that over √(2n − 1).
func noise(spread PPM, n int64) PPM {
	return spread * 5 / 4 * 1000 / PPM(isqrt(uint64(2*n-1)*1_000_000))
}

// settle starts a new measurement once the calls in flight have ended.
func (l *latency) settle(now Nanos) {
	l.remeasure(now)
	l.TrialWindow = 0
	l.Raise.drop()
}

// remeasure judges by calls alone that are sent from now on.
func (l *latency) remeasure(now Nanos) {
	l.Since, l.From = now, now+min(settleTimes*l.Took, settleMost)
	l.Samples = 0
}

// try puts a cut because of latency on trial.
func (l *latency) try(now Nanos, before, after Milli, ratio PPM, exploring bool) {
	l.Exploring = exploring
	if l.SeriesFrom == 0 {
		l.SeriesFrom = before
	}
	if long := l.long(); !l.Anew && long >= ratio-3*l.noise() {
		ratio = long // what made the cut was a peak: without a cause the next is lower
	}
	l.settle(now)
	l.Wary = l.From + wary
	l.TrialWindow, l.TrialRatio = before, ratio
	l.TrialShare = PPM(mulDiv(int64(after), int64(One), int64(max(before, 1))))
}

// onTrial reports whether a cut because of latency waits for its result.
func (l *latency) onTrial(now Nanos) bool {
	return l.TrialWindow > 0 && now < l.Wary
}

// outcome is what became of a cut on trial.
type outcome uint8

const (
	untold  outcome = iota // not to be told from noise yet
	faster                 // the cut made calls faster
	same                   // it did not
	unclear                // something else changed meanwhile
)

// verdict returns what the cut on trial did. After a rise it made calls faster
// if they lost a third of it: a provider that shrinks meanwhile hides much,
// and taking an overload for normal is the worse mistake. Where nothing rose,
// half of what load could have done.
func (l *latency) verdict(p *Params) outcome {
	ratio, ok := l.slowness(p)
	if !ok {
		return untold
	}
	best, part := PPM(scale(int64(l.TrialRatio), l.TrialShare)), PPM(2)
	if !l.Exploring {
		best, part = max(best, One), 3
	}
	least, noise := l.TrialRatio-max(l.TrialRatio-best, 0)/part, l.noise()
	switch {
	case max(ratio-least, least-ratio) < 2*noise && l.Samples < l.gain():
		return untold
	case ratio < least:
		return faster
	case ratio > l.TrialRatio+max(2*noise, l.TrialRatio/16),
		ratio < l.TrialRatio-max(noise, l.TrialRatio/32) && !l.Exploring:
		return unclear
	}
	return same
}

// explore reports whether a refused window is to be tried at less. Refusals
// tell what a provider takes, not what it does best: many slow down long before
// they refuse, and a baseline learned at the limit does not know it. Not while
// the limit moves: then every cut is an experiment of its own. And not when
// latency asks for a cut: that is known to be too much.
func (l *latency) explore(p *Params, now Nanos, was *window, before Milli) bool {
	steady := now >= was.CutAt+p.Plateau && max(before-was.Ceiling, was.Ceiling-before) <= before/10
	_, high := l.high(p)
	return steady && !high && before >= exploreLeast && l.Learned >= meanGain && (l.Explored == 0 || now >= l.Explored+exploreEvery)
}

// futileMost is how many cuts in a row must not help until load is not the
// cause: one may have met a provider that shrank just as much.
const futileMost = 2

// futile ends a trial that did not make calls faster, and returns the window
// to be given back: at once what was only explored, else all that a series
// took. rebase is set when the present is the new normal.
func (l *latency) futile() (window Milli, rebase bool) {
	l.TrialWindow, window = 0, l.SeriesFrom
	if l.Exploring {
		l.SeriesFrom = 0
		return window, false
	}
	if l.Futile++; l.Futile < futileMost {
		return 0, false
	}
	return window, true
}

// calmed ends a series of cuts.
func (l *latency) calmed() { l.TrialWindow, l.SeriesFrom, l.Futile = 0, 0, 0 }

// refused takes a cut that a refusal made: the window goes by refusals now, and
// what was explored has no answer.
func (l *latency) refused(now Nanos) {
	l.Raise.drop()
	if l.onTrial(now) {
		if !l.Exploring {
			return
		}
		l.calmed()
	}
	l.Wary = min(l.Wary, now)
}

// helped ends a trial that made calls faster: what the next take is the baseline
// if it is less. Not what those took that told it: they were looked at one by
// one until they seemed fast enough, and are faster than the others.
func (l *latency) helped() {
	l.calmed()
	if l.Recent+2*l.noise() < l.Drift {
		l.Anew, l.Mean, l.Learned = true, l.Recent, 0
	}
}

// rebase takes the present latency as the baseline.
func (l *latency) rebase(now Nanos) {
	l.Mean = max(l.Recent, 1)
	l.Drift, l.DriftAt = l.Mean, now
	l.Learned, l.Anew = meanGain, false
	l.calmed()
	l.settle(now)
	l.Wary = l.From + wary
}

func (c *coder) latency(l *latency) {
	list(c, &l.Cells, (*coder).latencyCell)
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
}

func (c *coder) latencyCell(cell *latencyCell) {
	num(c, &cell.Key)
	num(c, &cell.Base)
	num(c, &cell.Count)
}
