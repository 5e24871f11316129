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
// just what was started between the two. The pace is set to that, stays for
// LearnPlateau and climbs by the cube of the time in use since,
//
//	pace(g) = learned · (1 + LearnClimb · ((g − plateau) / 10 s)³)
//
// so that the known limit is tested by percents and one that is gone is left
// fast. A refusal after the budget was not in use says that too much was saved
// up: the depth is halved.
type limit struct {
	bucket
	// Told is by configuration, Hinted by an answer, Learned by refusals: per
	// minute, 0 for none.
	Told, Hinted, Learned int64
	// Share is the part of the depth that is used.
	Share PPM
	// Since is the last refusal, Grown the time in use since, Busy the same
	// with the holds, Started what was started and not refused since.
	Since, Grown, Busy Nanos
	Started            int64
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
	g := min(l.Grown-p.LearnPlateau, Hour) / Millisecond
	if g <= 0 {
		return l.Learned
	}
	grown := mulDiv(int64(p.LearnClimb), int64(g)*int64(g)*int64(g), 1_000_000_000_000)
	return min(l.Learned+mulDiv(l.Learned, grown, int64(One)), maxRate)
}

// refresh sets the bucket to what is known now. least is the smallest useful
// depth: two requests, one of which is on its way. A climb is followed by percents, since every change of
// the pace is a change of what is safe.
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
	l.set(rate, max(depth, least))
}

func (l *limit) share() PPM {
	if l.Share == 0 {
		return One
	}
	return l.Share
}

// forget drops what was learned long ago.
func (l *limit) forget(p *Params, now Nanos) {
	if l.Learned > 0 && now-l.Since > p.LearnForget {
		l.Learned, l.Share, l.Since = 0, 0, 0
	}
}

// source names what the pace comes from.
func (l *limit) source(p *Params) string {
	switch n := l.known(p); {
	case n == 0:
		return ""
	case n == l.Told:
		return "told"
	case n == l.Hinted:
		return "hinted"
	}
	return "learned"
}

// pass adds time in use, held of it in a hold.
func (l *limit) pass(span, held Nanos) {
	if l.Binding {
		l.Grown += span - held
		l.Busy += span
	}
}

// refused takes the first refusal of an episode. flow is the pace at which the
// fleet started calls of late, per minute, for the very first.
//
// What was started between two refusals is the limit if the provider saves up
// what is not used. If it counts anew every second, it is too little, since
// the time below the limit is lost: a pace that held for a plateau is not
// given up, and half of the climb is kept.
func (l *limit) refused(p *Params, now Nanos, flow int64) string {
	span, before := now-l.Since, l.known(p)
	measured := mulDiv(max(l.Started, 0), int64(Minute), int64(max(span, 1)))
	var reason string
	switch {
	case l.Since == 0 || before == 0:
		l.Learned = max(flow, 1)
		if before > 0 {
			l.Learned = min(l.Learned, before)
		}
		reason = fmt.Sprintf("the first refusal; a pace of %d a minute is known to be too much", l.Learned)
	case span < learnLeast || l.Busy < span-span/4:
		l.Learned = max(scale(before, slackCut), 1)
		l.Share = max(l.share()/2, shareFloor)
		reason = fmt.Sprintf("refused though the budget was not in use; from %d to %d a minute, and less is saved up", before, l.Learned)
	default:
		least := scale(before, learnFloor)
		if l.Grown >= p.LearnPlateau && l.Learned > 0 {
			least = l.Learned + (before-l.Learned)/2
		}
		l.Learned = max(min(measured, before), least, 1)
		reason = fmt.Sprintf("%d started in %s between two refusals; from %d to %d a minute", l.Started, span.Duration().Round(Millisecond.Duration()), before, l.Learned)
	}
	l.Level = min(l.Level, 0)
	l.Since, l.Grown, l.Busy, l.Started = now, 0, 0, 0
	return reason
}

// audit compares the ledger with what an answer left, outstanding being what
// agents hold and have not used. It corrects by an eighth: an answer is as old
// as its way here, and calls were started meanwhile.
func (l *limit) audit(remaining, outstanding int64) {
	l.Drift = l.Level + outstanding - remaining
	if l.Drift > 0 {
		l.Level -= l.Drift / 8
	}
}
