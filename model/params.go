package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Params are the constants of the laws that a fleet may tune. Every one has
// its unit, range, default and source in ParamSpecs; they change only by a
// ParamSet in the log.
type Params struct {
	// Window.
	WindowStart     Milli // slots at the start
	WindowFloor     Milli // least window; below it the breaker decides
	WindowMax       Milli // largest window
	SlowStartGain   Milli // growth per success before the first cut
	CutShare        PPM   // what an agent's own cut keeps until the controller speaks
	PinFloor        PPM   // least share a measured cut keeps
	Plateau         Nanos // time at the known limit before the climb
	ClimbDouble     Nanos // time in which the climb beyond the plateau doubles
	UsedShare       PPM   // share of the window in flight that counts as used
	LatencyCalm     PPM   // latency over its baseline up to which the window grows
	LatencyHigh     PPM   // latency over its baseline from which the window shrinks
	LatencySamples  int64 // samples before latency is judged
	LatencyCutFloor PPM   // least share a latency cut keeps

	// Weight.
	WeightDecay    PPM   // what a failing epoch leaves
	WeightFloor    PPM   // least weight
	WeightHalfLife Nanos // time in which half of the loss is regained

	// Breaker.
	BreakerRatio       PPM   // failure share that opens
	BreakerVolume      int64 // outcomes before the ratio counts
	BreakerWindow      Nanos // width of the sliding window of send times
	BreakerConsecutive int64 // failures in a row at the window's floor that open
	BreakerWait        Nanos // first time open
	BreakerWaitMax     Nanos // longest time open
	ProbeWithin        Nanos // time a probe has to end
	TransportEvery     Nanos // send time in which transport failures cut weight once

	// Hold after a refusal that names no wait.
	HoldDefault Nanos
	// HoldTrust is the longest wait of a rate refusal that is believed.
	HoldTrust Nanos
	// HoldMax bounds a wait that a provider names for a quota, and the waits
	// of refusals that go on.
	HoldMax Nanos

	// Leases.
	LeaseDuration Nanos // how long a grant holds
	SafeShare     PPM   // share of a grant usable when cut off
	RotateEvery   Nanos // turn length when slots are fewer than agents
	PassEvery     Nanos // least time between two lease passes of a channel
	ForgetAfter   Nanos // silence after which an agent's claims are dropped

	// Budgets.
	BudgetMargin PPM   // share of a limit that is handed out
	BudgetDepth  Nanos // what of a limit is saved up, as time
	LearnClimb   PPM   // climb of a learned limit per second in use
	LearnLeap    Nanos // time in use after which it has doubled besides
	LearnForget  Nanos // time without a refusal after which a learned limit is forgotten
	PoolFloat    PPM   // share of a pool's burst an idle agent may keep
}

// Scale says how a parameter's range is searched.
type Scale uint8

// The scales.
const (
	ScaleLinear Scale = 0
	ScaleLog    Scale = 1
)

// ParamSpec declares one parameter.
type ParamSpec struct {
	// Name is the parameter's name in files: snake case.
	Name string
	// Unit of the number: milli-slots, ppm, ns, count.
	Unit string
	// Min, Max and Default are inclusive bounds and the value at the start.
	Min, Max, Default int64
	Scale             Scale
	// Source says where the default comes from and what moves with it.
	Source string
	field  func(*Params) *int64
}

// Get returns the parameter's value in p.
func (s ParamSpec) Get(p *Params) int64 { return *s.field(p) }

// Set puts v into p; an error names the range when v is outside.
func (s ParamSpec) Set(p *Params, v int64) error {
	if v < s.Min || v > s.Max {
		return fmt.Errorf("parameter %s is %d %s, outside %d..%d", s.Name, v, s.Unit, s.Min, s.Max)
	}
	*s.field(p) = v
	return nil
}

// DefaultParams returns the parameters in force when nothing else is pushed.
func DefaultParams() Params {
	var p Params
	for _, s := range ParamSpecs() {
		*s.field(&p) = s.Default
	}
	return p
}

// Check returns an error that names every parameter out of its range.
func (p *Params) Check() error {
	for _, s := range ParamSpecs() {
		if err := s.Set(p, s.Get(p)); err != nil {
			return err
		}
	}
	return nil
}

// Hash identifies a parameter set: 16 hex digits over names and values.
func (p *Params) Hash() string {
	h := sha256.New()
	for _, s := range ParamSpecs() {
		fmt.Fprintf(h, "%s=%d\n", s.Name, s.Get(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// ParamSpecs returns the declaration of every parameter, in the order of the
// fields of Params.
func ParamSpecs() []ParamSpec {
	const (
		milli = "milli-slots"
		ppm   = "ppm"
		ns    = "ns"
		count = "count"
		s     = int64(Second)
		ms    = int64(Millisecond)
	)
	return []ParamSpec{
		{"window_start", milli, 1_000, 1_000_000, 10_000, ScaleLog, "the incident's operators restarted with 5; slow start doubles it each round trip", func(p *Params) *int64 { return (*int64)(&p.WindowStart) }},
		{"window_floor", milli, 1_000, 100_000, 1_000, ScaleLog, "one slot: below it there is nothing to cut and the breaker decides", func(p *Params) *int64 { return (*int64)(&p.WindowFloor) }},
		{"window_max", milli, 1_000, 1_000_000_000, 4_096_000, ScaleLog, "a bound against runaway growth where nothing refuses", func(p *Params) *int64 { return (*int64)(&p.WindowMax) }},
		{"slow_start_gain", milli, 0, 4_000, 1_000, ScaleLinear, "RFC 5681 slow start: one per success", func(p *Params) *int64 { return (*int64)(&p.SlowStartGain) }},
		{"cut_share", ppm, 300_000, 980_000, 700_000, ScaleLinear, "an agent's own cut before the controller speaks; for the fleet it would cost 15 % of goodput", func(p *Params) *int64 { return (*int64)(&p.CutShare) }},
		{"pin_floor", ppm, 100_000, 980_000, 400_000, ScaleLinear, "a measurement taken while reports are on their way reads low; no single one may take more than this", func(p *Params) *int64 { return (*int64)(&p.PinFloor) }},
		{"plateau", ns, s / 2, 120 * s, 6 * s, ScaleLog, "at 1.5 times the demand 6 s refuse 0.9 % beside the noise and find a rise within 10 s; 4 s 0.1 % more, 8 s 0.1 % less", func(p *Params) *int64 { return (*int64)(&p.Plateau) }},
		{"climb_double", ns, s / 10, 60 * s, 800 * ms, ScaleLog, "a hundred slots in 5 s, the first at one a second: what an answer's way of 250 ms lets pass is then refused once", func(p *Params) *int64 { return (*int64)(&p.ClimbDouble) }},
		{"used_share", ppm, 500_000, 1_000_000, 875_000, ScaleLinear, "a window that is not in use proves nothing; reports are up to 100 ms old, so all of it would never be seen in use", func(p *Params) *int64 { return (*int64)(&p.UsedShare) }},
		{"latency_calm", ppm, 1_010_000, 3_000_000, 1_060_000, ScaleLinear, "in the compressed cascade 1.06 and 1.22 give 0.93 of what could be served, 1.10 and 1.18 give 0.91; noise of 60 calls is 3 %", func(p *Params) *int64 { return (*int64)(&p.LatencyCalm) }},
		{"latency_high", ppm, 1_050_000, 10_000_000, 1_220_000, ScaleLinear, "see latency_calm; earlier cuts take noise for a slowdown, later ones give away what a crowded provider could do", func(p *Params) *int64 { return (*int64)(&p.LatencyHigh) }},
		{"latency_samples", count, 4, 1_000, 16, ScaleLog, "samples sent after the last cut before latency is judged", func(p *Params) *int64 { return &p.LatencySamples }},
		{"latency_cut_floor", ppm, 300_000, 980_000, 400_000, ScaleLinear, "least share one latency cut keeps; the next follows one service time later", func(p *Params) *int64 { return (*int64)(&p.LatencyCutFloor) }},
		{"weight_decay", ppm, 100_000, 990_000, 700_000, ScaleLinear, "×0.7 once per epoch with failures", func(p *Params) *int64 { return (*int64)(&p.WeightDecay) }},
		{"weight_floor", ppm, 1_000, 500_000, 50_000, ScaleLog, "a channel must be able to prove itself: 0.7^8 is 6 %", func(p *Params) *int64 { return (*int64)(&p.WeightFloor) }},
		{"weight_half_life", ns, s, 3_600 * s, 30 * s, ScaleLog, "five times slower than the window's plateau and climb", func(p *Params) *int64 { return (*int64)(&p.WeightHalfLife) }},
		{"breaker_ratio", ppm, 100_000, 1_000_000, 500_000, ScaleLinear, "half of what was sent failed", func(p *Params) *int64 { return (*int64)(&p.BreakerRatio) }},
		{"breaker_volume", count, 1, 10_000, 20, ScaleLog, "one of one failed proves nothing", func(p *Params) *int64 { return &p.BreakerVolume }},
		{"breaker_window", ns, s, 30 * s, 10 * s, ScaleLog, "send times, since a count over completions overstates fast failures", func(p *Params) *int64 { return (*int64)(&p.BreakerWindow) }},
		{"breaker_consecutive", count, 1, 1_000, 5, ScaleLog, "at the floor of the window there is one call at a time", func(p *Params) *int64 { return &p.BreakerConsecutive }},
		{"breaker_wait", ns, s / 10, 600 * s, 5 * s, ScaleLog, "first time open; doubles with every failed probe", func(p *Params) *int64 { return (*int64)(&p.BreakerWait) }},
		{"breaker_wait_max", ns, s, 3_600 * s, 60 * s, ScaleLog, "longest time open without a hint of the provider", func(p *Params) *int64 { return (*int64)(&p.BreakerWaitMax) }},
		{"probe_within", ns, s, 600 * s, 60 * s, ScaleLog, "time a probe has to end: longer than a slow call, so that a slow answer is not a failure", func(p *Params) *int64 { return (*int64)(&p.ProbeWithin) }},
		{"transport_every", ns, s, 300 * s, 10 * s, ScaleLog, "a broken connection takes many calls at once; it counts once", func(p *Params) *int64 { return (*int64)(&p.TransportEvery) }},
		{"hold_default", ns, ms, 60 * s, 1 * s, ScaleLog, "wait of a rate refusal that names none", func(p *Params) *int64 { return (*int64)(&p.HoldDefault) }},
		{"hold_trust", ns, s, 3_600 * s, 60 * s, ScaleLog, "a limit a minute is whole again after one; longer waits are found by single probes", func(p *Params) *int64 { return (*int64)(&p.HoldTrust) }},
		{"hold_max", ns, s, 86_400 * s, 3_600 * s, ScaleLog, "an absurd hint must not close a channel for days", func(p *Params) *int64 { return (*int64)(&p.HoldMax) }},
		{"lease_duration", ns, s, 300 * s, 15 * s, ScaleLog, "three reports fit in, so two may be lost", func(p *Params) *int64 { return (*int64)(&p.LeaseDuration) }},
		{"safe_share", ppm, 0, 1_000_000, 1_000_000, ScaleLinear, "what a cut-off agent may keep using; the rest can be lent, but nobody is there to lend it where the controller itself is gone", func(p *Params) *int64 { return (*int64)(&p.SafeShare) }},
		{"rotate_every", ns, s / 10, 60 * s, 2 * s, ScaleLog, "turn of a slot when there are fewer slots than agents", func(p *Params) *int64 { return (*int64)(&p.RotateEvery) }},
		{"pass_every", ns, 0, s, 20 * ms, ScaleLinear, "one lease pass a tick; a cut, a freed slot and new demand do not wait", func(p *Params) *int64 { return (*int64)(&p.PassEvery) }},
		{"forget_after", ns, 60 * s, 86_400 * s, 600 * s, ScaleLog, "ten minutes of silence: longer than any call", func(p *Params) *int64 { return (*int64)(&p.ForgetAfter) }},
		{"budget_margin", ppm, 100_000, 1_000_000, 1_000_000, ScaleLinear, "share of a limit handed out: less of it makes room for who draws on the account beside the fleet", func(p *Params) *int64 { return (*int64)(&p.BudgetMargin) }},
		{"budget_depth", ns, s / 10, 60 * s, 2 * s, ScaleLog, "saved up for calls that come together; what is let go at once must fit the rest of a provider's window", func(p *Params) *int64 { return (*int64)(&p.BudgetDepth) }},
		{"learn_climb", ppm, 10, 100_000, 3_000, ScaleLog, "a bucket of 5 s is overdrawn after a minute, by then at 1.2 times the limit; a third of it leaves 2 % more of a hidden limit unused and refuses half as much", func(p *Params) *int64 { return (*int64)(&p.LearnClimb) }},
		{"learn_leap", ns, 10 * s, 3_600 * s, 240 * s, ScaleLog, "a limit that was raised 2.5 times is found in five minutes, in ten where it was found the same again and again", func(p *Params) *int64 { return (*int64)(&p.LearnLeap) }},
		{"learn_forget", ns, 60 * s, 86_400 * s, 3_600 * s, ScaleLog, "an hour without a refusal: the limit is not what it was", func(p *Params) *int64 { return (*int64)(&p.LearnForget) }},
		{"pool_float", ppm, 0, 1_000_000, 20_000, ScaleLog, "what an idle agent keeps so that its next call need not ask", func(p *Params) *int64 { return (*int64)(&p.PoolFloat) }},
	}
}
