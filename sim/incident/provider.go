package incident

import "time"

// Provider is a service with limits that nobody outside sees, and the script
// of how they move.
type Provider struct {
	Name string
	// Law holds at time 0.
	Law Law
	// Changes are in order of At.
	Changes []Change
}

// Change moves a provider's law. Numbers go linearly from what they are at At
// to To's value at At+Over; everything else switches at At.
type Change struct {
	At, Over time.Duration
	// To is the complete law once this change and all before it are over.
	To Law
	// Moved has bit k set when `set` names the k-th number of Law.Numbers.
	Moved uint64
}

// Law is everything that decides how a provider treats a call.
type Law struct {
	// Concurrency is how many calls run at the same time, other tenants
	// included; Unlimited, or 0 for none.
	Concurrency int64
	// Queue is how many more wait for a slot, first come first served.
	Queue int64
	// RPM and the token limits are per minute, or per their Per.
	RPM, TPM, InputTPM, OutputTPM Rate
	RequestsPerDay, TokensPerDay  Daily
	// DayElapsed is how much of the provider's day (24 h) is gone at time 0.
	DayElapsed time.Duration
	Service    Service
	Slowdown   Slowdown
	// AbandonedWork: a call goes on, and keeps its slot, after its client gave up.
	AbandonedWork bool
	// Background is how many slots other tenants hold.
	Background int64
	Noise      Noise
	Refusal    Refusal
	// Special replaces Refusal for the reasons it lists.
	Special []SpecialRefusal
	Ban     Ban
}

// WindowKind names how a per-minute limit is counted.
type WindowKind string

// How per-minute limits are counted.
const (
	// TokenBucket refills continuously up to Burst.
	TokenBucket WindowKind = "token_bucket"
	// FixedWindow starts from nothing at each full minute.
	FixedWindow WindowKind = "fixed"
	// SlidingWindow counts the last 60 s.
	SlidingWindow WindowKind = "sliding"
)

// Rate is a limit per minute, or per another time. `rpm: 60` is short for
// `rpm: {limit: 60}`.
type Rate struct {
	// Limit is Unlimited when absent.
	Limit  int64
	Window WindowKind // default TokenBucket
	// Burst is the depth of the bucket; Unlimited means "the same as Limit".
	Burst  int64
	Charge Charge // token limits only; default ChargeActual
	// Per is the time that Limit counts over, 1 s to 1 h; 0 means a minute. It
	// never changes.
	Per time.Duration
}

// Daily is a limit per day of 24 h.
type Daily struct {
	Limit int64 // Unlimited when absent
	Used  int64 // already spent at time 0
}

// Service is the time a call takes on an idle provider:
// Base + input/PrefillPerS + output/OutputPerS, times a random factor.
type Service struct {
	Base time.Duration
	// PrefillPerS and OutputPerS are tokens per second; 0 means "no time at all".
	PrefillPerS, OutputPerS int64
	// CV is the coefficient of variation of the random factor, in ppm.
	CV int64
}

// Slowdown stretches the service time with load: not at all up to From, then
// convexly up to Factor at the concurrency cap.
type Slowdown struct {
	From   int64 // share of the cap, ppm, 0..PPM
	Factor int64 // ppm, at least PPM
}

// Noise is failures that mean nothing.
type Noise struct {
	ErrorRate int64 // share of accepted calls, ppm
	Status    int64 // HTTP status of such a failure, default 500
}

// Shape names the API whose error bodies a provider speaks.
type Shape string

// The error shapes.
const (
	ShapeOpenAI    Shape = "openai"
	ShapeAnthropic Shape = "anthropic"
	ShapeGemini    Shape = "gemini"
	ShapeMiniMax   Shape = "minimax"
	ShapeFlat      Shape = "flat"
)

// HintKind names what a refusal says about waiting.
type HintKind string

// What a refusal says about waiting.
const (
	HintNone  HintKind = "none"  // nothing
	HintExact HintKind = "exact" // the true wait
	HintFixed HintKind = "fixed" // always the same time, true or not; written as a duration
)

// Refusal is how a provider says no.
type Refusal struct {
	// Status is the HTTP status; 0 means what the shape uses for the reason.
	Status int64
	// Code is the business or error code; empty means what the shape uses for
	// the reason.
	Code  string
	Shape Shape // default ShapeOpenAI
	Hint  HintKind
	// HintFor is the wait that HintFixed states.
	HintFor time.Duration
	// Delay is how long the refusal takes to arrive; default 50 ms.
	Delay time.Duration
	// Headers: every answer carries rate-limit headers.
	Headers bool
	// Charged: a refused call counts against the per-minute limits all the same.
	Charged bool
	// HoldsSlot: saying no takes one of the slots for Delay.
	HoldsSlot bool
}

// Reason is why a provider turned a call away. A client sees only what the
// refusal says.
type Reason string

// The reasons.
const (
	ReasonConcurrency Reason = "concurrency" // no slot and no place in the queue
	ReasonRequests    Reason = "requests"    // requests per minute
	ReasonTokens      Reason = "tokens"      // tokens per minute, of any kind
	ReasonDay         Reason = "day"         // requests or tokens per day
	ReasonBan         Reason = "ban"         // blocked for too many refused calls
	ReasonTooLarge    Reason = "too_large"   // can never fit a limit
)

// Reasons lists every reason in a fixed order.
func Reasons() []Reason {
	return []Reason{ReasonConcurrency, ReasonRequests, ReasonTokens, ReasonDay, ReasonBan, ReasonTooLarge}
}

// SpecialRefusal is the refusal used for one reason.
type SpecialRefusal struct {
	Reason  Reason
	Refusal Refusal
}

// RefusalFor returns how the law says no for that reason.
func (l *Law) RefusalFor(reason Reason) Refusal {
	for _, s := range l.Special {
		if s.Reason == reason {
			return s.Refusal
		}
	}
	return l.Refusal
}

// Ban is a longer block: Refusals refused calls within In bring For without
// any service. Refusals 0 means none.
type Ban struct {
	Refusals int64
	In, For  time.Duration
	// Widen makes each further ban that many times longer than the one before,
	// up to Most, until Forget has passed since the last one ended. It is in
	// ppm and PPM when the file says nothing; 0 for Most or Forget means no end.
	Widen        int64
	Most, Forget time.Duration
}

// NumNumbers is how many numbers of a law a change can move.
const NumNumbers = 28

// Numbers lists, in a fixed order, every number of the law that moves linearly.
func (l *Law) Numbers() [NumNumbers]*int64 {
	return [NumNumbers]*int64{
		&l.Concurrency, &l.Queue, &l.Background,
		&l.RPM.Limit, &l.RPM.Burst, &l.TPM.Limit, &l.TPM.Burst,
		&l.InputTPM.Limit, &l.InputTPM.Burst, &l.OutputTPM.Limit, &l.OutputTPM.Burst,
		&l.RequestsPerDay.Limit, &l.TokensPerDay.Limit,
		(*int64)(&l.Service.Base), &l.Service.PrefillPerS, &l.Service.OutputPerS, &l.Service.CV,
		&l.Slowdown.From, &l.Slowdown.Factor,
		&l.Noise.ErrorRate,
		(*int64)(&l.Refusal.Delay), (*int64)(&l.Refusal.HintFor),
		&l.Ban.Refusals, (*int64)(&l.Ban.In), (*int64)(&l.Ban.For),
		&l.Ban.Widen, (*int64)(&l.Ban.Most), (*int64)(&l.Ban.Forget),
	}
}
