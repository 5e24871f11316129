package incident

import (
	"cmp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/sim/strict"
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
		Ban:      Ban{Widen: PPM},
	}
}

func (r *reader) provider(n ast.Node, path string) Provider {
	p := Provider{Law: newLaw()}
	f := r.Mapping(n, path)
	if f == nil {
		return p
	}
	f.Need("name")
	f.Name("name", &p.Name)
	r.law(f, &p.Law)
	f.Span("day_elapsed", &p.Law.DayElapsed, 0)
	if p.Law.DayElapsed >= 24*time.Hour {
		r.Fault(f.Get("day_elapsed"), "%s.day_elapsed: must be less than 24h", path)
	}
	var raw []rawChange
	f.List("changes", func(n ast.Node, path string) { raw = append(raw, r.change(n, path)) })
	f.Done()
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
	f := r.Mapping(n, path)
	if f == nil {
		return c
	}
	f.Need("at")
	f.Span("at", &c.at, 0)
	f.Span("over", &c.over, 0)
	if f.Need("set") {
		c.set, c.path = f.Get("set"), path+".set"
	}
	f.Done()
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
		f := r.Mapping(c.set, c.path)
		if f == nil {
			continue
		}
		law.Special = slices.Clone(law.Special)
		next := &Change{At: c.at, Over: c.over, To: law}
		r.moved = map[*int64]bool{}
		r.law(f, &next.To)
		f.Done()
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
func (r *reader) law(f *strict.Fields, l *Law) {
	f.Count("concurrency", &l.Concurrency, 0, maxCount)
	f.Count("queue", &l.Queue, 0, maxCount)
	r.rate(f, "rpm", &l.RPM)
	r.rate(f, "tpm", &l.TPM)
	r.rate(f, "input_tpm", &l.InputTPM)
	r.rate(f, "output_tpm", &l.OutputTPM)
	r.daily(f, "requests_per_day", &l.RequestsPerDay)
	r.daily(f, "tokens_per_day", &l.TokensPerDay)
	if c := f.Child("service"); c != nil {
		c.Span("base", &l.Service.Base, 0)
		c.Count("prefill_tokens_per_s", &l.Service.PrefillPerS, 1, maxTokens)
		c.Count("output_tokens_per_s", &l.Service.OutputPerS, 1, maxTokens)
		c.Ratio("cv", &l.Service.CV, 0, 10*PPM)
		c.Done()
	}
	if c := f.Child("slowdown"); c != nil {
		c.Ratio("from", &l.Slowdown.From, 0, PPM)
		c.Ratio("factor", &l.Slowdown.Factor, PPM, maxRatio)
		c.Done()
	}
	f.Flag("abandoned_work", &l.AbandonedWork)
	if c := f.Child("background"); c != nil {
		c.Count("concurrency", &l.Background, 0, maxCount)
		c.Done()
	}
	if c := f.Child("noise"); c != nil {
		c.Ratio("error_rate", &l.Noise.ErrorRate, 0, PPM)
		c.Count("status", &l.Noise.Status, 400, 599)
		c.Done()
	}
	if c := f.Child("refusal"); c != nil {
		r.refusal(c, &l.Refusal)
	}
	if c := f.Child("refusals"); c != nil {
		r.special(c, l)
	}
	if c := f.Child("ban"); c != nil {
		c.Count("refusals", &l.Ban.Refusals, 0, strict.MaxList)
		c.Span("in", &l.Ban.In, 0)
		c.Span("for", &l.Ban.For, 0)
		c.Ratio("widen", &l.Ban.Widen, PPM, maxRatio)
		c.Span("most", &l.Ban.Most, 0)
		c.Span("forget", &l.Ban.Forget, 0)
		c.Done()
	}
}

// rate reads a per-minute limit, in full or as one number.
func (r *reader) rate(f *strict.Fields, key string, rate *Rate) {
	n := f.Get(key)
	if n == nil {
		return
	}
	if _, plain := strict.Number(n); plain {
		f.Count(key, &rate.Limit, 0, rate.most())
		return
	}
	c := r.Mapping(n, f.Sub(key))
	if c == nil {
		return
	}
	if rate.Limit == Unlimited {
		c.Need("limit")
	}
	if r.moved == nil { // a change cannot set it
		c.Span("per", &rate.Per, time.Second)
		if rate.Per > time.Hour {
			r.Fault(c.Get("per"), "%s: must be at most 1h", c.Sub("per"))
			rate.Per = 0
		}
	}
	c.Count("limit", &rate.Limit, 0, rate.most())
	c.Count("burst", &rate.Burst, 0, rate.most())
	strict.Choose(c, "window", &rate.Window, TokenBucket, FixedWindow, SlidingWindow)
	if key != "rpm" {
		strict.Choose(c, "charge", &rate.Charge, ChargeActual, ChargeMaxTokens)
	}
	c.Done()
}

// most is the largest limit whose bucket fits an integer; see maxTokens.
func (r *Rate) most() int64 {
	return Scale(maxTokens, int64(time.Minute), int64(max(time.Minute, r.Per)))
}

// daily reads a per-day limit, in full or as one number.
func (r *reader) daily(f *strict.Fields, key string, d *Daily) {
	n := f.Get(key)
	if n == nil {
		return
	}
	if _, plain := strict.Number(n); plain {
		f.Count(key, &d.Limit, 0, maxDaily)
		return
	}
	c := r.Mapping(n, f.Sub(key))
	if c == nil {
		return
	}
	c.Count("limit", &d.Limit, 0, maxDaily)
	c.Count("used", &d.Used, 0, maxDaily)
	c.Done()
}

func (r *reader) refusal(f *strict.Fields, x *Refusal) {
	f.Count("status", &x.Status, 200, 599)
	f.Text("code", &x.Code)
	strict.Choose(f, "shape", &x.Shape, ShapeOpenAI, ShapeAnthropic, ShapeGemini, ShapeMiniMax, ShapeFlat)
	r.hint(f, x)
	f.Span("delay", &x.Delay, 0)
	f.Flag("headers", &x.Headers)
	f.Flag("charged", &x.Charged)
	f.Flag("holds_slot", &x.HoldsSlot)
	f.Done()
}

// hint reads retry_after: none, exact, or a duration.
func (r *reader) hint(f *strict.Fields, x *Refusal) {
	n := f.Get("retry_after")
	if n == nil {
		return
	}
	if word := HintKind(n.GetToken().Value); word == HintNone || word == HintExact {
		x.Hint = word
		return
	}
	x.Hint = HintFixed
	f.Span("retry_after", &x.HintFor, time.Millisecond)
}

// special reads refusals that replace the general one for some reasons. What
// such a refusal does not say is as in the general one, but for status and
// code, which are the shape's own.
func (r *reader) special(f *strict.Fields, l *Law) {
	for _, reason := range Reasons() {
		c := f.Child(string(reason))
		if c == nil {
			continue
		}
		x := l.Refusal
		x.Status, x.Code = 0, ""
		r.refusal(c, &x)
		l.Special = slices.DeleteFunc(l.Special, func(s SpecialRefusal) bool { return s.Reason == reason })
		l.Special = append(l.Special, SpecialRefusal{reason, x})
	}
	f.Done()
}

// Moves reports whether a change moves the k-th number of Law.Numbers.
func (c *Change) Moves(k int) bool { return c.Moved>>k&1 != 0 }
