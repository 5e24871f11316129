package demo

import (
	"context"
	"math"
	"time"

	"weir/cmd/weir/emulator"
	"weir/cmd/weir/load"
	"weir/cmd/weir/report"
	"weir/controller"
	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// sample is everything at a moment of a phase.
type sample struct {
	at    time.Duration
	load  load.Snapshot
	books provider.Books
	// capacity is the provider's true limit, best the number of calls at which
	// the most gets done.
	capacity, best float64
	// window in slots, weight 0..1 and breaker 0..1 are Weir's view of the
	// incident's first channel; NaN where there is no Weir.
	window, weight, breaker float64
}

// provider puts the provider's truth into a sample.
func (s *sample) provider(r *emulator.Report) {
	s.books = r.Books
	s.capacity, s.best = limitOf(r.Concurrency), limitOf(r.BestInFlight)
}

// limitOf is a limit as a number, NaN where there is none.
func limitOf(n int64) float64 {
	if n < 0 {
		return math.NaN()
	}
	return float64(n)
}

// controller puts Weir's view of the incident's first channel into a sample.
func (s *sample) controller(ctx context.Context, loop *controller.Loop) {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery/2)
	defer cancel()
	v, err := loop.View(ctx)
	if err != nil || len(v.Channels) == 0 {
		return // a gap in the chart
	}
	c := &v.Channels[0]
	s.window, s.weight = float64(c.Window)/1000, float64(c.Weight)/float64(model.One)
	switch c.State {
	case model.BreakerClosed:
		s.breaker = 0
	case model.BreakerHalfOpen:
		s.breaker = 0.5
	case model.BreakerOpen, model.BreakerMisconfigured:
		s.breaker = 1
	}
}

// smooth is the time over which rates are taken, so that a few calls more or
// less do not look like trouble.
const smooth = time.Second

// columns turns samples into a report's.
func columns(samples []sample) report.Samples {
	var c report.Samples
	from := 0
	for i := range samples {
		s := &samples[i]
		for samples[from].at < s.at-smooth {
			from++
		}
		before := &samples[from]
		rate := func(now, then int64) float64 {
			if s.at == before.at {
				return math.NaN()
			}
			return float64(now-then) / (s.at - before.at).Seconds()
		}
		c.T = append(c.T, s.at.Seconds())
		c.Offered = append(c.Offered, rate(s.load.Total.Offered, before.load.Total.Offered))
		c.Completed = append(c.Completed, rate(s.load.Total.Completed, before.load.Total.Completed))
		c.Sent = append(c.Sent, rate(s.books.Offered, before.books.Offered))
		c.Refused = append(c.Refused, rate(s.books.Refused.Total(), before.books.Refused.Total()))
		c.Could = append(c.Could, rate(s.books.CouldHaveServed, before.books.CouldHaveServed))
		c.InFlight = append(c.InFlight, float64(s.books.Running+s.books.Waiting+s.books.Ghosts))
		c.Capacity = append(c.Capacity, s.capacity)
		c.Best = append(c.Best, s.best)
		c.Window = append(c.Window, s.window)
		c.Weight = append(c.Weight, s.weight)
		c.Breaker = append(c.Breaker, s.breaker)
		c.P50 = append(c.P50, seconds(s.load.P50))
		c.P99 = append(c.P99, seconds(s.load.P99))
	}
	return c
}

// seconds is a time as a number, NaN for a negative one.
func seconds(d time.Duration) float64 {
	if d < 0 {
		return math.NaN()
	}
	return d.Seconds()
}

// figures are what a phase comes to between the sample at from and the last.
func figures(samples []sample, from, change time.Duration, r *load.Result) report.Figures {
	f := report.Figures{P50: none, P99: none, CallP50: none, CallP99: none, Recover: none}
	first := at(samples, from)
	if first < 0 || first == len(samples)-1 {
		return f
	}
	a, b := &samples[first], &samples[len(samples)-1]
	f.Seconds = (b.at - a.at).Seconds()
	f.Offered = b.load.Total.Offered - a.load.Total.Offered
	f.Completed = b.load.Total.Completed - a.load.Total.Completed
	f.Goodput = float64(f.Completed) / f.Seconds
	f.CouldHaveServed = b.books.CouldHaveServed - a.books.CouldHaveServed
	f.GoodputRatio = share(f.Completed, f.CouldHaveServed)
	f.Attempts = b.books.Offered - a.books.Offered
	f.Refused = b.books.Refused.Total() - a.books.Refused.Total()
	f.Abandoned = b.books.Abandoned - a.books.Abandoned
	f.Failed = b.books.Failed - a.books.Failed
	f.Wasted = b.books.Wasted() - a.books.Wasted()
	f.WasteRatio = share(f.Wasted, f.Attempts)
	f.WastedTokens = b.books.WastedTokens - a.books.WastedTokens
	if r.Request.Count > 0 {
		f.P50, f.P99 = report.Number(r.Request.P50), report.Number(r.Request.P99)
		f.CallP50, f.CallP99 = report.Number(r.Call.P50), report.Number(r.Call.P99)
	}
	f.Recover = recovery(samples, change)
	return f
}

// none is a time there is none of.
var none = report.Number(math.NaN())

func share(part, whole int64) report.Number {
	if whole == 0 {
		return none
	}
	return report.Number(float64(part) / float64(whole))
}

// at is the index of the first sample at or after an instant, or -1.
func at(samples []sample, t time.Duration) int {
	for i := range samples {
		if samples[i].at >= t {
			return i
		}
	}
	return -1
}

// The target of a recovery, and how long it must be held to count.
const (
	recovered   = 0.9
	recoverHold = time.Second
)

// recovery is the time after the last change until which, from then to the
// end, at least nine tenths of what could have been served was.
func recovery(samples []sample, change time.Duration) report.Number {
	last := len(samples) - 1
	for i := max(0, at(samples, change)); i < last && samples[last].at-samples[i].at >= recoverHold; i++ {
		done := samples[last].load.Total.Completed - samples[i].load.Total.Completed
		could := samples[last].books.CouldHaveServed - samples[i].books.CouldHaveServed
		if float64(done) >= recovered*float64(could) {
			return report.Number((samples[i].at - change).Seconds())
		}
	}
	return none
}

// code2064 counts the provider's answers with that code since an instant. The
// books know reasons; the incident says which of them the provider calls 2064.
func code2064(inc *incident.Incident, samples []sample, from time.Duration) int64 {
	first := at(samples, from)
	if first < 0 {
		return 0
	}
	law := &inc.Providers[0].Law
	a, b := &samples[first].books.Refused, &samples[len(samples)-1].books.Refused
	n := int64(0)
	for reason, count := range map[incident.Reason]int64{
		incident.ReasonConcurrency: b.Concurrency - a.Concurrency,
		incident.ReasonRequests:    b.Requests - a.Requests,
		incident.ReasonTokens:      b.Tokens - a.Tokens,
		incident.ReasonDay:         b.Day - a.Day,
		incident.ReasonBan:         b.Ban - a.Ban,
		incident.ReasonTooLarge:    b.TooLarge - a.TooLarge,
	} {
		if law.RefusalFor(reason).Code == "2064" {
			n += count
		}
	}
	return n
}
