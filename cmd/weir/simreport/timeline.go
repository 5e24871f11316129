package simreport

import (
	"math"

	"weir/cmd/weir/report"
	"weir/model"
	"weir/sim/world"
)

// Column is one series of numbers; NaN is a gap.
type Column = report.Column

// Timeline is one run over time, in columns of equal length.
type Timeline struct {
	Incident string `json:"incident"`
	Policy   string `json:"policy"`
	Seed     uint64 `json:"seed"`
	// T is seconds since the start.
	T Column `json:"t_s"`
	// Wanted to Could are requests, Sent to Abandoned attempts per second over
	// the step before T.
	Wanted    Column `json:"wanted"`
	Completed Column `json:"completed"`
	Failed    Column `json:"failed"`
	Could     Column `json:"could_have_served"`
	Sent      Column `json:"sent"`
	Refused   Column `json:"refused"`
	Abandoned Column `json:"abandoned"`
	// Classes are the refused by class, those that occurred.
	Classes []Class `json:"classes"`
	// InFlight are calls at all providers, Capacity their true caps, Window
	// what Weir allows on all channels.
	InFlight Column `json:"in_flight"`
	Capacity Column `json:"capacity"`
	Window   Column `json:"window"`
	// P50 to P99 are times of requests completed within the step, in seconds.
	P50      Column    `json:"p50_s"`
	P95      Column    `json:"p95_s"`
	P99      Column    `json:"p99_s"`
	Channels []Channel `json:"channels"`
	// Spread has 101 entries: within so many seconds that many percent of the
	// completed requests were.
	Spread Column `json:"spread_s"`
}

// Class is one class of refusals.
type Class struct {
	Name    string `json:"name"`
	Refused Column `json:"refused"`
}

// Channel is one channel over time.
type Channel struct {
	Name     string `json:"name"`
	InFlight Column `json:"in_flight"`
	Capacity Column `json:"capacity"`
	Window   Column `json:"window"`
	// Weight is 0..1; Breaker is 0 closed, 0.5 half-open, 1 open.
	Weight  Column `json:"weight"`
	Breaker Column `json:"breaker"`
}

// TimelineOf turns a run's series into columns. It needs Result.Series.
func TimelineOf(r *world.Result) Timeline {
	s := r.Series
	t := Timeline{Incident: r.Incident, Policy: r.Policy, Seed: r.Seed, Classes: classes(s), Channels: channels(s)}
	for i := range s.Points {
		p := &s.Points[i]
		rate := func(n int64) float64 { return float64(n) / float64(s.Step) }
		refused := int64(0)
		for _, n := range p.Refused {
			refused += n
		}
		t.T = append(t.T, float64(p.At))
		t.Wanted = append(t.Wanted, rate(p.Wanted))
		t.Completed = append(t.Completed, rate(p.Completed))
		t.Failed = append(t.Failed, rate(p.Failed))
		t.Could = append(t.Could, rate(p.Could))
		t.Sent = append(t.Sent, rate(p.Sent))
		t.Refused = append(t.Refused, rate(refused))
		t.Abandoned = append(t.Abandoned, rate(p.Abandoned))
		t.InFlight = append(t.InFlight, float64(p.InFlight))
		capacity, window := float64(p.Capacity), 0.0
		for k := range p.Channels {
			c := &p.Channels[k]
			if c.Capacity < 0 {
				capacity = math.NaN() // a provider without a cap
			}
			window += slots(c)
		}
		t.Capacity = append(t.Capacity, capacity)
		t.Window = append(t.Window, window)
		t.P50 = append(t.P50, known(p.P50.Seconds()))
		t.P95 = append(t.P95, known(p.P95.Seconds()))
		t.P99 = append(t.P99, known(p.P99.Seconds()))
	}
	for _, d := range s.Spread {
		t.Spread = append(t.Spread, d.Seconds())
	}
	return t
}

// classes are the columns of what was refused, by class.
func classes(s *world.Series) []Class {
	out := []Class{}
	for class := range model.NumClasses {
		total := int64(0)
		c := Class{Name: model.Class(class).String()}
		for i := range s.Points {
			n := s.Points[i].Refused[class]
			total += n
			c.Refused = append(c.Refused, float64(n)/float64(s.Step))
		}
		if total > 0 {
			out = append(out, c)
		}
	}
	return out
}

func channels(s *world.Series) []Channel {
	out := make([]Channel, len(s.Channels))
	for k := range out {
		c := &out[k]
		c.Name = s.Channels[k]
		for i := range s.Points {
			p := &s.Points[i].Channels[k]
			c.InFlight = append(c.InFlight, float64(p.InFlight))
			c.Capacity = append(c.Capacity, known(float64(p.Capacity)))
			c.Window = append(c.Window, slots(p))
			weight, breaker := math.NaN(), math.NaN()
			if p.Known {
				weight, breaker = float64(p.Weight)/float64(model.One), Openness(p.Breaker)
			}
			c.Weight, c.Breaker = append(c.Weight, weight), append(c.Breaker, breaker)
		}
	}
	return out
}

// slots is a channel's window, NaN where nobody decides one.
func slots(p *world.ChannelPoint) float64 {
	if !p.Known {
		return math.NaN()
	}
	return float64(p.Window) / 1000
}

// Openness is how a breaker is drawn: 0 closed, a half half-open, 1 open; NaN, a
// gap, for a state that is none.
func Openness(s model.BreakerState) float64 {
	switch s {
	case model.BreakerClosed:
		return 0
	case model.BreakerHalfOpen:
		return 0.5
	case model.BreakerOpen, model.BreakerMisconfigured:
		return 1
	}
	return math.NaN()
}

// known is a number that negative values stand for none of.
func known(v float64) float64 {
	if v < 0 {
		return math.NaN()
	}
	return v
}
