package incident

import (
	"cmp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// maxDaily bounds a day's requests or tokens.
const maxDaily = 1_000_000_000_000

// newLaw is the law of a provider of which the file says nothing: no limits,
// no queue, no slowdown, and an instant answer.
func newLaw() Law {
	open := Rate{Limit: Unlimited, Window: TokenBucket, Burst: Unlimited, Charge: ChargeActual}
	return Law{
		Concurrency: Unlimited,
		RPM:         open, TPM: open, InputTPM: open, OutputTPM: open,
		RequestsPerDay: Daily{Limit: Unlimited}, TokensPerDay: Daily{Limit: Unlimited},
		Slowdown: Slowdown{From: PPM, Factor: PPM},
		Noise:    Noise{Status: 500},
		Refusal:  Refusal{Shape: ShapeOpenAI, Hint: HintNone, Delay: 50 * time.Millisecond},
	}
}

func (r *reader) provider(n ast.Node, path string) Provider {
	p := Provider{Law: newLaw()}
	f := r.mapping(n, path)
	if f == nil {
		return p
	}
	f.need("name")
	f.name("name", &p.Name)
	f.law(&p.Law)
	f.span("day_elapsed", &p.Law.DayElapsed, 0)
	if p.Law.DayElapsed >= 24*time.Hour {
		r.fault(f.byKey["day_elapsed"].value, "%s.day_elapsed: must be less than 24h", path)
	}
	var raw []rawChange
	f.list("changes", func(n ast.Node, path string) { raw = append(raw, r.change(n, path)) })
	f.done()
	p.Changes = r.laws(p.Law, raw)
	return p
}

// rawChange is a change whose `set` is not yet laid over the law before it.
type rawChange struct {
	at, over time.Duration
	set      ast.Node
	path     string
}

func (r *reader) change(n ast.Node, path string) (c rawChange) {
	f := r.mapping(n, path)
	if f == nil {
		return c
	}
	f.need("at")
	f.span("at", &c.at, 0)
	f.span("over", &c.over, 0)
	if f.need("set") {
		c.set, c.path = f.get("set"), path+".set"
	}
	f.done()
	return c
}

// laws lays each change over the law before it, in order of time.
func (r *reader) laws(law Law, raw []rawChange) []Change {
	slices.SortStableFunc(raw, func(a, b rawChange) int { return cmp.Compare(a.at, b.at) })
	var out []Change
	for _, c := range raw {
		if c.set == nil {
			continue
		}
		f := r.mapping(c.set, c.path)
		if f == nil {
			continue
		}
		law.Special = slices.Clone(law.Special)
		next := &Change{At: c.at, Over: c.over, To: law}
		r.moved = map[*int64]bool{}
		f.law(&next.To)
		f.done()
		for i, number := range next.To.Numbers() {
			if r.moved[number] {
				next.Moved |= 1 << i
			}
		}
		r.moved = nil
		law = next.To
		out = append(out, *next)
	}
	return out
}

// law reads every field of a provider that may change.
func (f *fields) law(l *Law) {
	f.count("concurrency", &l.Concurrency, 0, maxCount)
	f.count("queue", &l.Queue, 0, maxCount)
	f.rate("rpm", &l.RPM)
	f.rate("tpm", &l.TPM)
	f.rate("input_tpm", &l.InputTPM)
	f.rate("output_tpm", &l.OutputTPM)
	f.daily("requests_per_day", &l.RequestsPerDay)
	f.daily("tokens_per_day", &l.TokensPerDay)
	if c := f.child("service"); c != nil {
		c.span("base", &l.Service.Base, 0)
		c.count("prefill_tokens_per_s", &l.Service.PrefillPerS, 1, maxTokens)
		c.count("output_tokens_per_s", &l.Service.OutputPerS, 1, maxTokens)
		c.ratio("cv", &l.Service.CV, 0, 10*PPM)
		c.done()
	}
	if c := f.child("slowdown"); c != nil {
		c.ratio("from", &l.Slowdown.From, 0, PPM)
		c.ratio("factor", &l.Slowdown.Factor, PPM, maxRatio)
		c.done()
	}
	f.flag("abandoned_work", &l.AbandonedWork)
	if c := f.child("background"); c != nil {
		c.count("concurrency", &l.Background, 0, maxCount)
		c.done()
	}
	if c := f.child("noise"); c != nil {
		c.ratio("error_rate", &l.Noise.ErrorRate, 0, PPM)
		c.count("status", &l.Noise.Status, 400, 599)
		c.done()
	}
	if c := f.child("refusal"); c != nil {
		c.refusal(&l.Refusal)
	}
	if c := f.child("refusals"); c != nil {
		c.special(l)
	}
	if c := f.child("ban"); c != nil {
		c.count("refusals", &l.Ban.Refusals, 0, maxList)
		c.span("in", &l.Ban.In, 0)
		c.span("for", &l.Ban.For, 0)
		c.done()
	}
}

// rate reads a per-minute limit, in full or as one number.
func (f *fields) rate(key string, rate *Rate) {
	n := f.get(key)
	if n == nil {
		return
	}
	if _, plain := number(n); plain {
		f.count(key, &rate.Limit, 0, maxTokens)
		return
	}
	c := f.r.mapping(n, f.sub(key))
	if c == nil {
		return
	}
	if rate.Limit == Unlimited {
		c.need("limit")
	}
	c.count("limit", &rate.Limit, 0, maxTokens)
	c.count("burst", &rate.Burst, 0, maxTokens)
	choose(c, "window", &rate.Window, TokenBucket, FixedWindow, SlidingWindow)
	if key != "rpm" {
		choose(c, "charge", &rate.Charge, ChargeActual, ChargeMaxTokens)
	}
	c.done()
}

// daily reads a per-day limit, in full or as one number.
func (f *fields) daily(key string, d *Daily) {
	n := f.get(key)
	if n == nil {
		return
	}
	if _, plain := number(n); plain {
		f.count(key, &d.Limit, 0, maxDaily)
		return
	}
	c := f.r.mapping(n, f.sub(key))
	if c == nil {
		return
	}
	c.count("limit", &d.Limit, 0, maxDaily)
	c.count("used", &d.Used, 0, maxDaily)
	c.done()
}

func (f *fields) refusal(x *Refusal) {
	f.count("status", &x.Status, 200, 599)
	f.text("code", &x.Code)
	choose(f, "shape", &x.Shape, ShapeOpenAI, ShapeAnthropic, ShapeGemini, ShapeMiniMax, ShapeFlat)
	f.hint(x)
	f.span("delay", &x.Delay, 0)
	f.flag("headers", &x.Headers)
	f.flag("charged", &x.Charged)
	f.done()
}

// hint reads retry_after: none, exact, or a duration.
func (f *fields) hint(x *Refusal) {
	n := f.get("retry_after")
	if n == nil {
		return
	}
	if word := HintKind(n.GetToken().Value); word == HintNone || word == HintExact {
		x.Hint = word
		return
	}
	x.Hint = HintFixed
	f.span("retry_after", &x.HintFor, time.Millisecond)
}

// special reads refusals that replace the general one for some reasons. What
// such a refusal does not say is as in the general one, but for status and
// code, which are the shape's own.
func (f *fields) special(l *Law) {
	for _, reason := range Reasons() {
		c := f.child(string(reason))
		if c == nil {
			continue
		}
		x := l.Refusal
		x.Status, x.Code = 0, ""
		c.refusal(&x)
		l.Special = slices.DeleteFunc(l.Special, func(s SpecialRefusal) bool { return s.Reason == reason })
		l.Special = append(l.Special, SpecialRefusal{reason, x})
	}
	f.done()
}

// Moves reports whether a change moves the k-th number of Law.Numbers.
func (c *Change) Moves(k int) bool { return c.Moved>>k&1 != 0 }
