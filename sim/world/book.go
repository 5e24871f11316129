package world

import (
	"slices"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// Second is what happened within one second of virtual time, and how things
// stood at its end.
type Second struct {
	At        int // the second's end, from 1
	Wanted    int64
	Completed int64 // within their deadline
	Failed    int64
	Sent      int64
	Refused   [model.NumClasses]int64
	InFlight  int64 // at the providers
	Capacity  int64 // the providers' true caps
	// Could is what an omniscient scheduler served in the second; 0 in a run of
	// the oracle, which is one.
	Could int64
	// Window, Limit, Weight, Latency and Breaker are the first channel's, as
	// Weir's controller had it.
	Window  model.Milli
	Weight  model.PPM
	Latency model.PPM
	Breaker string
	Queued  int64
}

// Result is one run's figures. Counts start when the books open, but for
// Books, Events and the lease's and the provider's overshoot.
type Result struct {
	Incident, Policy string
	Seed             uint64
	// Params are the parameters in force.
	Params           model.Params
	Requests         int64
	Completed        int64
	Failed           int64
	Could            int64
	Attempts, Wasted int64
	Refused          int64
	Abandoned        int64
	Timeouts         int64
	TurnedAway       int64
	Retries          int64
	P50, P95, P99    time.Duration
	// LeaseOvershoot is the largest Σ claims ÷ limit, in ppm, over records
	// that raised a claim. LeaseUtilisation is the mean of Σ leases ÷ the
	// smaller of limit and demand, in ppm. CutDrain is the longest time that
	// more was in flight than the limit.
	LeaseOvershoot, LeaseUtilisation int64
	CutDrain                         time.Duration
	// ProviderOvershoot is the most in flight over a provider's true cap, in ppm.
	ProviderOvershoot int64
	WastedTokens      int64
	// Tokens are those of completed requests.
	Tokens int64
	// Missed is requests that ended at their deadline.
	Missed int64
	// ByAgent is completed requests per agent, WantedBy those wanted.
	ByAgent, WantedBy []int64
	// ByWorkload is completed requests per workload.
	ByWorkload []int64
	Flaps      int64
	// From is when the books opened; FirstChange and LastChange are when the
	// script first moves and last ends moving something, 0 for never.
	From, FirstChange, LastChange time.Duration
	Events                        uint64
	Digest                        uint64
	Seconds                       []Second
	Decisions                     []model.Decision
	Books                         []provider.Books
	// Series is the run over time, nil unless Config.Points asked for it.
	Series *Series
}

// GoodputRatio is completed requests over what an omniscient scheduler served.
func (r *Result) GoodputRatio() float64 { return float64(r.Completed) / float64(max(r.Could, 1)) }

// WasteRatio is the share of attempts that brought nothing.
func (r *Result) WasteRatio() float64 { return float64(r.Wasted) / float64(max(r.Attempts, 1)) }

// book collects while a run goes on.
type book struct {
	from      int64
	second    Second
	seconds   []Second
	latencies []int64
	decided   []model.Decision
	total     Second // since the books opened
	counts
	before            counts // the books opened
	could             int64
	events            uint64
	tokens            int64 // of requests completed since the books opened
	byAgent, wantedBy []int64
	byLoad            []int64
	// recorder is nil when nobody looks.
	recorder *recorder
}

// counts are what has happened since the start.
type counts struct {
	abandoned, timeouts, turnedAway, retries, missed, flaps, wastedTokens int64
}

// maxDecisions bounds the decisions kept of one run.
const maxDecisions = 20_000

func newBook(w *world) book {
	n := w.inc.Fleet.MaxAgents()
	return book{from: int64(w.cfg.BooksFrom), byAgent: make([]int64, n), wantedBy: make([]int64, n), byLoad: make([]int64, len(w.inc.Workloads)), recorder: newRecorder(w)}
}

func (b *book) wanted(w *world, agent int) {
	b.second.Wanted++
	if w.now >= b.from {
		b.wantedBy[agent]++
	}
}

func (b *book) completed(w *world, r *request) {
	if r.Deadline > 0 && w.now > r.Deadline {
		b.second.Failed++
		return
	}
	b.second.Completed++
	if w.now >= b.from {
		b.byAgent[r.Agent]++
		b.byLoad[r.Workload]++
		b.tokens += r.tokens()
		b.latencies = append(b.latencies, w.now-r.At)
	}
	if b.recorder != nil {
		b.recorder.took(w.now-r.At, w.now >= b.from)
	}
}

func (b *book) decisions(d []model.Decision) {
	for i := range d {
		if d[i].Rule == model.RuleBreakerOpen {
			b.flaps++
		}
	}
	if room := maxDecisions - len(b.decided); room > 0 {
		b.decided = append(b.decided, d[:min(room, len(d))]...)
	}
}

// second closes a second of the books.
func (w *world) second() {
	b := &w.book
	s := &b.second
	s.At = int(w.now / int64(time.Second))
	var could int64
	b.wastedTokens = 0
	for i := range w.providers {
		w.serve(i)
		t := w.providers[i].truth
		books := t.Books()
		could += books.CouldHaveServed
		b.wastedTokens += books.WastedTokens
		s.InFlight += books.Running + books.Waiting
		s.Capacity += t.Law().Concurrency
	}
	s.Could = could - b.could
	b.could = could
	for _, c := range w.controllers {
		c.use.second(c.fleet, w.inc)
	}
	if f := w.fleet(); f != nil {
		if c, ok := f.ChannelView(0); ok {
			s.Window, s.Weight, s.Latency, s.Breaker, s.Queued = c.Window, c.Weight, c.Latency, c.Breaker, c.Queued
		}
	}
	if w.now > b.from {
		b.total.Wanted += s.Wanted
		b.total.Completed += s.Completed
		b.total.Failed += s.Failed
		b.total.Sent += s.Sent
		for i, n := range s.Refused {
			b.total.Refused[i] += n
		}
		b.total.Could += s.Could
	} else {
		b.before = b.counts
	}
	b.seconds = append(b.seconds, *s)
	if b.recorder != nil {
		b.recorder.second(w, s)
	}
	if w.cfg.Observe != nil {
		w.cfg.Observe(*s)
	}
	*s = Second{}
}

func (w *world) result() *Result {
	b := &w.book
	r := &Result{
		Incident: w.inc.Name, Policy: w.cfg.Policy, Seed: w.cfg.Seed,
		Requests: b.total.Wanted, Completed: b.total.Completed, Failed: b.total.Failed,
		Could: b.total.Could, Attempts: b.total.Sent, Abandoned: b.abandoned - b.before.abandoned,
		Timeouts: b.timeouts - b.before.timeouts, TurnedAway: b.turnedAway - b.before.turnedAway, Retries: b.retries - b.before.retries,
		Missed: b.missed - b.before.missed, Flaps: b.flaps - b.before.flaps, WastedTokens: b.wastedTokens - b.before.wastedTokens,
		From: w.cfg.BooksFrom, Tokens: b.tokens, ByAgent: b.byAgent, WantedBy: b.wantedBy, ByWorkload: b.byLoad,
		Events: b.events, Digest: uint64(w.digest), Seconds: b.seconds, Decisions: b.decided,
	}
	for _, n := range b.total.Refused {
		r.Refused += n
	}
	r.Wasted = r.Refused + r.Abandoned
	slices.Sort(b.latencies)
	at := func(share int) time.Duration {
		if len(b.latencies) == 0 {
			return 0
		}
		return time.Duration(b.latencies[(len(b.latencies)-1)*share/100])
	}
	r.P50, r.P95, r.P99 = at(50), at(95), at(99)
	for i := range w.providers {
		books := w.providers[i].truth.Books()
		r.Books = append(r.Books, books)
		r.ProviderOvershoot = max(r.ProviderOvershoot, books.MaxOvershoot)
	}
	if len(w.controllers) > 0 {
		var u leaseUse
		for _, c := range w.controllers {
			u.join(&c.use)
		}
		r.LeaseOvershoot, r.LeaseUtilisation, r.CutDrain = u.overshoot, u.mean(), time.Duration(u.drain)
	}
	r.FirstChange, r.LastChange = ScriptSpan(w.inc)
	r.Params = model.DefaultParams()
	if w.cfg.Params != nil {
		r.Params = *w.cfg.Params
	}
	r.Series = b.recorder.finish()
	return r
}

// ScriptSpan returns when an incident's script first moves something and last
// ends moving something.
func ScriptSpan(inc *incident.Incident) (first, last time.Duration) {
	see := func(at, over time.Duration) {
		if first == 0 || at < first {
			first = at
		}
		last = max(last, at+over)
	}
	for i := range inc.Providers {
		for _, c := range inc.Providers[i].Changes {
			see(c.At, c.Over)
		}
	}
	for _, c := range inc.Fleet.Changes {
		see(c.At, c.For)
	}
	return first, last
}
