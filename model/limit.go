package model

import "fmt"

// limit is one dimension of a budget: what is known of the provider's limit,
// and the bucket from which it is handed out.
//
// The pace is the least of what configuration told, what an answer's headers
// told and what refusals measured. It is handed out evenly, with a depth of
// BudgetDepth only: so buckets, fixed and sliding windows of whatever length
// let it through alike.
//
// A refusal that comes while the budget is in use is a measurement: the
// provider had nothing left then, nor at the refusal before, so it let through
// just what was started between the two. The pace is set to that and climbs
// with the time g in use since,
//
//	pace(g) = learned · (1 + LearnClimb · g / 2ˢ + (g / (LearnLeap · (1 + s/3)))³)
//
// by so little that a bucket of some seconds hides it for a minute or two and a
// window of a second is used to the brim, and at last fast, where the limit is
// gone. s is how often in a row the same was measured: each test of the limit
// costs a hold, and what was found again and again need not be tested as often.
// A refusal after the budget was not in use says that too much was saved up: the
// depth is halved, and what the pace had climbed is not trusted.
type limit struct {
	bucket
	// Told is by configuration, Hinted by an answer, Learned by refusals: per
	// minute, 0 for none.
	Told, Hinted, Learned int64
	// Heard is when an answer last told it. Belied is one told that cannot be a
	// limit per minute.
	Heard  Nanos
	Belied int64
	// Share is the part of the depth that is used.
	Share PPM
	// Since is the last refusal, Grown the time in use since but for holds,
	// Busy the time in which somebody waited for the budget, Started what was
	// started and not refused.
	Since, Grown, Busy Nanos
	Started            int64
	// Held is the time in holds since the last refusal.
	Held Nanos
	// Sum was started over the time Over between refusals, of the last minutes,
	// one more than Sure, and the newest interval.
	Sum  int64
	Over Nanos
	// Sure is how many paces in a row were measured as the one before, at most
	// sureMost.
	Sure int64
	// Binding is set while somebody waits for this limit: it is in use.
	Binding bool
	// Drift is how far the ledger was above what the newest answers left.
	Drift int64
}

const (
	// learnLeast is the least time between two refusals that measures a pace.
	learnLeast = Second
	// learnFloor is the least share of the pace that one measurement keeps:
	// one taken over a second or two is off by a call or two.
	learnFloor PPM = 700_000
	// slackCut is what a refusal leaves of the pace that came while the budget
	// was not in use: it measured nothing.
	slackCut PPM = 950_000
	// shareFloor is the least part of the depth that is used.
	shareFloor PPM = 250_000
	// sureMost bounds how sure a pace is, sureShare is the share of it by which
	// the same one is measured at most otherwise.
	sureMost  = 3
	sureShare = 16
)

// known returns the least of the limits known, per minute, 0 for none.
func (l *limit) known(p *Params) int64 {
	least := l.Told
	for _, n := range []int64{l.Hinted, l.climbed(p)} {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// climbed returns the learned limit as it is after the time in use.
func (l *limit) climbed(p *Params) int64 {
	if l.Learned == 0 {
		return 0
	}
	g := min(l.Grown, Hour) / Millisecond
	leap := int64(p.LearnLeap/Millisecond) * (sureMost + l.Sure) / sureMost
	linear := mulDiv(int64(p.LearnClimb), int64(g), 1000) >> l.Sure
	cubic := mulDiv(mulDiv(int64(One), int64(g), leap)*int64(g)/leap, int64(g), leap)
	return min(l.Learned+min(mulDiv(l.Learned, linear+cubic, int64(One)), maxRate), maxRate)
}

// refresh sets the bucket to what is known now. least is the smallest useful
// depth: two requests, one of which is on its way. A climb is followed by
// percents, since every change of the pace is a change of what is safe.
func (l *limit) refresh(p *Params, least int64) {
	known := l.known(p)
	if known == 0 {
		l.Binding = false
		l.set(0, 0)
		return
	}
	rate := max(scale(known, p.BudgetMargin), 1)
	if l.Rate > 0 && rate > l.Rate && rate < l.Rate+l.Rate/100 && known != l.Told {
		rate = l.Rate
	}
	depth := scale(mulDiv(rate, int64(p.BudgetDepth), int64(Minute)), l.share())
	fresh := l.Rate == 0
	l.set(rate, max(depth, least))
	if fresh && l.Since > 0 {
		l.Level = 0 // known by a refusal: nothing is left
	}
}

// left returns the part of the depth that is left.
func (l *limit) left() PPM {
	return PPM(mulDiv(max(l.Level, 0), int64(One), max(l.Burst, 1)))
}

func (l *limit) share() PPM {
	if l.Share == 0 {
		return One
	}
	return l.Share
}

// forget drops what was learned or told by an answer long ago.
func (l *limit) forget(p *Params, now Nanos) {
	if now-l.Heard > p.LearnForget {
		l.Hinted = 0
	}
	if l.Learned > 0 && now-l.Since > p.LearnForget {
		l.unlearn()
	}
}

// unlearn drops what refusals taught.
func (l *limit) unlearn() {
	l.Learned, l.Share, l.Since, l.Sum, l.Over, l.Sure = 0, 0, 0, 0, 0, 0
}

// source names what the pace comes from.
func (l *limit) source(p *Params) string {
	switch l.known(p) {
	case 0:
		return ""
	case l.Told:
		return "told"
	case l.Hinted:
		return "hinted"
	}
	return "learned"
}

// pass adds time, held of it in a hold, lacking while somebody waited for the
// budget.
func (l *limit) pass(span, held Nanos, lacking bool) {
	l.Held += held
	if l.Binding {
		l.Grown += span - held
	}
	if lacking {
		l.Busy += span
	}
}

// refused takes the first refusal of an episode. flow is the pace at which the
// fleet started calls of late, per minute, for the very first.
func (l *limit) refused(p *Params, now Nanos, flow int64) string {
	span, before := now-l.Since, l.known(p)
	var reason string
	switch {
	case l.Since == 0 || before == 0:
		l.Learned = max(flow, 1)
		if before > 0 {
			l.Learned = min(l.Learned, before)
		}
		reason = fmt.Sprintf("the first refusal; a pace of %d a minute is known to be too much", l.Learned)
	case span < learnLeast || l.Busy < span-span/4:
		l.refute(before)
		l.Share = max(l.share()/2, shareFloor)
		reason = fmt.Sprintf("refused though the budget was not in use; from %d to %d a minute, and less is saved up", before, l.Learned)
	default:
		l.learn(max(min(l.measure(span), before), scale(before, learnFloor), 1))
		l.Share = min(2*l.share(), One)
		reason = fmt.Sprintf("%d started in %s between two refusals; from %d to %d a minute", l.Started, said(span), before, l.Learned)
	}
	l.Level = min(l.Level, 0)
	l.Since, l.Grown, l.Busy, l.Held, l.Started = now, 0, 0, 0, 0
	return reason
}

// learn takes a pace that was measured.
func (l *limit) learn(pace int64) {
	if off := max(pace-l.Learned, l.Learned-pace); off <= l.Learned/sureShare {
		l.Sure = min(l.Sure+1, sureMost)
	} else {
		l.Sure = 0
	}
	l.Learned = pace
}

// refute takes a refusal that measured nothing: of the pace before what it
// climbed since the last one, or a little.
func (l *limit) refute(before int64) {
	if less := scale(before, slackCut); l.Learned <= less {
		l.Sure = min(l.Sure+1, sureMost)
	} else {
		l.Learned, l.Sure = max(less, 1), 0
	}
}

// measure adds the interval between two refusals and returns the pace, per
// minute, over that and the time before: fixed windows are refused now early,
// now late. An interval far below says that the limit is another. Of what was
// held half counts as time: a bucket fills in a hold, and a window passes.
func (l *limit) measure(span Nanos) int64 {
	started := max(l.Started, 0)
	span = max(span-l.Held/2, 1)
	if most := Minute * Nanos(1+l.Sure); l.Over > most {
		l.Sum, l.Over = mulDiv(l.Sum, int64(most), int64(l.Over)), most
	}
	l.Sum, l.Over = min(l.Sum+started, maxUse), l.Over+span
	all, last := mulDiv(l.Sum, int64(Minute), int64(l.Over)), mulDiv(started, int64(Minute), int64(span))
	if last < scale(all, learnFloor) {
		l.Sum, l.Over = started, span
		return last
	}
	return all
}

// audit compares the ledger with what an answer left. It corrects by an eighth
// downwards: an answer is as old as its way here, and calls were started
// meanwhile.
func (l *limit) audit(remaining int64) {
	l.Drift = l.Level - remaining
	if l.Drift > 0 {
		l.Level -= l.Drift / 8
	}
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
