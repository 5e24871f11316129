package provider

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/sim/incident"
)

// anyLaw draws a small world in which everything happens often.
func anyLaw(t *rapid.T) incident.Law {
	limit := func(name string, most int64) int64 {
		if rapid.Bool().Draw(t, "no "+name) {
			return incident.Unlimited
		}
		return rapid.Int64Range(0, most).Draw(t, name)
	}
	anyRate := func(name string, most int64) incident.Rate {
		return incident.Rate{
			Limit: limit(name, most), Burst: limit(name+" burst", most), Charge: incident.ChargeActual,
			Window: rapid.SampledFrom([]incident.WindowKind{incident.TokenBucket, incident.FixedWindow, incident.SlidingWindow}).Draw(t, name+" window"),
			Per:    rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, name+" per"),
		}
	}
	return incident.Law{
		Concurrency:    limit("concurrency", 8),
		Queue:          rapid.Int64Range(0, 4).Draw(t, "queue"),
		RPM:            anyRate("rpm", 600),
		TPM:            anyRate("tpm", 600_000),
		InputTPM:       anyRate("input tpm", 600_000),
		OutputTPM:      anyRate("output tpm", 600_000),
		RequestsPerDay: incident.Daily{Limit: limit("rpd", 300)},
		TokensPerDay:   incident.Daily{Limit: limit("tpd", 300_000)},
		Service:        incident.Service{Base: 10 * time.Millisecond, PrefillPerS: 10_000, OutputPerS: 1000, CV: rapid.Int64Range(0, 500_000).Draw(t, "cv")},
		Slowdown:       incident.Slowdown{From: rapid.Int64Range(0, incident.PPM).Draw(t, "from"), Factor: rapid.Int64Range(incident.PPM, 5*incident.PPM).Draw(t, "factor")},
		AbandonedWork:  rapid.Bool().Draw(t, "abandoned work"),
		Background:     rapid.Int64Range(0, 3).Draw(t, "background"),
		Noise:          incident.Noise{ErrorRate: rapid.SampledFrom([]int64{0, 100_000, incident.PPM}).Draw(t, "noise"), Status: 500},
		Refusal:        incident.Refusal{Shape: incident.ShapeOpenAI, Hint: incident.HintExact, Charged: rapid.Bool().Draw(t, "charged"), Headers: true, HoldsSlot: rapid.Bool().Draw(t, "holds slot"), Delay: 200 * time.Millisecond},
		Ban:            incident.Ban{Refusals: rapid.Int64Range(0, 10).Draw(t, "ban"), In: time.Second, For: 2 * time.Second, Widen: rapid.Int64Range(0, 3*incident.PPM).Draw(t, "widen"), Most: 5 * time.Second, Forget: 10 * time.Second},
	}
}

// anyProvider draws a law and changes to it.
func anyProvider(t *rapid.T) incident.Provider {
	p := incident.Provider{Name: "main", Law: anyLaw(t)}
	at := time.Duration(0)
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		at += time.Duration(rapid.Int64Range(0, 5*sec).Draw(t, "at"))
		p.Changes = append(p.Changes, incident.Change{
			At: at, Over: time.Duration(rapid.Int64Range(0, 5*sec).Draw(t, "over")),
			To: anyLaw(t), Moved: rapid.Uint64Range(0, 1<<incident.NumNumbers-1).Draw(t, "moved"),
		})
	}
	return p
}

// act is one thing a client does.
type act struct {
	at     int64
	offer  Call
	cancel int // index of the offer to cancel, -1 for none
}

func anyActs(t *rapid.T) []act {
	acts := make([]act, rapid.IntRange(1, 120).Draw(t, "acts"))
	now := int64(0)
	for i := range acts {
		now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 300*ms), rapid.Int64Range(0, 3*sec)).Draw(t, "gap")
		acts[i] = act{at: now, cancel: -1}
		if i > 0 && rapid.IntRange(0, 4).Draw(t, "cancels") == 0 {
			acts[i].cancel = rapid.IntRange(0, i-1).Draw(t, "which")
			continue
		}
		acts[i].offer = Call{
			ID: uint64(i), Request: uint64(i / 2), Try: uint32(i%2 + 1),
			Input: rapid.Int64Range(-1, 5000).Draw(t, "input"), Output: rapid.Int64Range(-1, 3000).Draw(t, "output"),
			MaxTokens: rapid.SampledFrom([]int64{0, 100, 4000}).Draw(t, "max tokens"),
		}
	}
	return acts
}

// play runs acts and returns everything a client and an auditor saw. between
// calls Advance before each act at instants of its choice.
func play(config Config, acts []act, end int64, between func(p *Provider, until int64, events []Event) []Event) (string, []Event, *Truth) {
	p, truth := New(config)
	var events []Event
	tickets := make([]Ticket, len(acts))
	var answers []string
	for i, a := range acts {
		events = between(p, a.at, events)
		if a.cancel >= 0 {
			answers = append(answers, fmt.Sprint(p.Cancel(a.at, tickets[a.cancel])))
			continue
		}
		answer := p.Offer(a.at, a.offer)
		tickets[i] = answer.Ticket
		answers = append(answers, fmt.Sprintf("%+v", answer))
	}
	events = p.Advance(end, between(p, end, events))
	return fmt.Sprintf("%v\n%+v\n%+v", answers, events, truth.Books()), events, truth
}

func keep(_ *Provider, _ int64, events []Event) []Event { return events }

// TestEveryCallEndsExactlyOnce is conservation: an accepted call that is not
// cancelled and not still there ends in one Done or Failed, a First comes at
// most once and before it, nothing follows a cancel, and the books add up.
func TestEveryCallEndsExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := Config{Incident: anyProvider(t), Seed: rapid.Uint64().Draw(t, "seed"), Ideal: true}
		acts := anyActs(t)
		_, events, truth := play(config, acts, acts[len(acts)-1].at+rapid.Int64Range(0, 100*sec).Draw(t, "rest"), keep)
		ends, firsts := map[uint64]int{}, map[uint64]int{}
		last := int64(0)
		for _, e := range events {
			if e.At < last {
				t.Fatalf("event out of order: %+v after %d", e, last)
			}
			last = e.At
			switch e.Kind {
			case First:
				firsts[e.ID]++
				if ends[e.ID] > 0 {
					t.Fatalf("first token after the end of %d", e.ID)
				}
			case Done, Failed:
				ends[e.ID]++
			}
			if firsts[e.ID] > 1 || ends[e.ID] > 1 {
				t.Fatalf("call %d: %d first tokens, %d ends", e.ID, firsts[e.ID], ends[e.ID])
			}
		}
		b := truth.Books()
		if sum := b.Refused.Total() + b.Served + b.Failed + b.Abandoned + b.Running + b.Waiting; sum != b.Offered {
			t.Fatalf("books: %d of %d offered calls: %+v", sum, b.Offered, b)
		}
		if int64(len(ends)) != b.Served+b.Failed {
			t.Fatalf("%d ends seen, %d in the books", len(ends), b.Served+b.Failed)
		}
		if b.Accepted+b.Refused.Total() != b.Offered {
			t.Fatalf("books: %+v", b)
		}
		if running, waiting := truth.InFlight(); running+waiting != b.Running+b.Waiting+b.Ghosts {
			t.Fatalf("%d in flight, books %+v", running+waiting, b)
		}
	})
}

// TestNeverAboveTheCap: no call starts above what the cap leaves beside other
// tenants, and none waits while there is room.
func TestNeverAboveTheCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, truth := New(Config{Incident: anyProvider(t), Seed: 1})
		before := int64(0)
		check := func() {
			law := truth.Law()
			running, waiting := truth.InFlight()
			if running > before && running > slots(&law) {
				t.Fatalf("%d running, was %d, cap %d beside %d others", running, before, law.Concurrency, law.Background)
			}
			if waiting > 0 && running+truth.Books().Refusing < slots(&law) {
				t.Fatalf("%d wait while %d of %d run", waiting, running, slots(&law))
			}
			before = running
		}
		for _, a := range anyActs(t) {
			for p.NextWake() <= a.at {
				p.Advance(p.NextWake(), nil)
				check()
			}
			if a.cancel < 0 {
				p.Offer(a.at, a.offer)
			}
			check()
		}
	})
}

// TestAdvanceInAnySteps: the outcome does not depend on how often time is told,
// in what steps, or whether it is told again, and the same seed gives the same.
func TestAdvanceInAnySteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := Config{Incident: anyProvider(t), Seed: rapid.Uint64().Draw(t, "seed"), Ideal: true}
		acts := anyActs(t)
		end := acts[len(acts)-1].at + 20*sec
		want, _, _ := play(config, acts, end, keep)
		again, _, _ := play(config, acts, end, keep)
		if want != again {
			t.Fatalf("same seed, another outcome:\n%s", cmp.Diff(want, again))
		}
		fine, _, _ := play(config, acts, end, func(p *Provider, until int64, events []Event) []Event {
			for range rapid.IntRange(0, 3).Draw(t, "steps") {
				events = p.Advance(rapid.Int64Range(0, until).Draw(t, "step"), events) // also backwards
			}
			return events
		})
		if want != fine {
			t.Fatalf("other steps, another outcome (-straight +steps):\n%s", cmp.Diff(want, fine))
		}
		wake, _, _ := play(config, acts, end, func(p *Provider, until int64, events []Event) []Event {
			for p.NextWake() <= until {
				at := p.NextWake()
				n := len(events)
				events = p.Advance(at, events)
				if i := slices.IndexFunc(events[n:], func(e Event) bool { return e.At != at }); i >= 0 {
					t.Fatalf("woken at %d for an event at %d", at, events[n+i].At)
				}
			}
			return events
		})
		if want != wake {
			t.Fatalf("woken for each event, another outcome (-straight +woken):\n%s", cmp.Diff(want, wake))
		}
	})
}

// TestSharedWorkAgreesWithTheDumbModel compares the virtual clock with a
// simulation that keeps each call's remaining work by itself.
func TestSharedWorkAgreesWithTheDumbModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := incident.Law{
			Concurrency: rapid.Int64Range(1, 6).Draw(t, "cap"), Queue: 100,
			Service:  incident.Service{OutputPerS: 1000},
			Slowdown: incident.Slowdown{From: rapid.Int64Range(0, 900_000).Draw(t, "from"), Factor: rapid.Int64Range(incident.PPM, 5*incident.PPM).Draw(t, "factor")},
		}
		for _, r := range []*incident.Rate{&law.RPM, &law.TPM, &law.InputTPM, &law.OutputTPM} {
			*r = incident.Rate{Limit: incident.Unlimited, Burst: incident.Unlimited, Window: incident.TokenBucket}
		}
		law.RequestsPerDay.Limit, law.TokensPerDay.Limit = incident.Unlimited, incident.Unlimited
		p, _ := New(Config{Incident: incident.Provider{Name: "main", Law: law}})
		var starts, work []int64
		now := int64(0)
		var events []Event
		for i := range rapid.IntRange(1, 12).Draw(t, "calls") {
			now += rapid.Int64Range(0, 2*sec).Draw(t, "gap")
			tokens := rapid.Int64Range(1, 3000).Draw(t, "tokens")
			p.Offer(now, Call{ID: uint64(i), Request: uint64(i), Output: tokens})
			starts, work = append(starts, now), append(work, tokens*ms)
		}
		events = p.Advance(now+1000*sec, events)
		want := dumb(&law, starts, work)
		for _, e := range events {
			if e.Kind == Done && max(e.At-want[e.ID], want[e.ID]-e.At) > 1000 {
				t.Fatalf("call %d ends at %d, the dumb model says %d", e.ID, e.At, want[e.ID])
			}
		}
	})
}

// dumb returns when each call ends, step by step from one change to the next.
func dumb(law *incident.Law, starts, work []int64) []int64 {
	left := make([]float64, len(work))
	ends := make([]int64, len(work))
	for i, w := range work {
		left[i] = float64(w)
	}
	now, next := 0.0, 0
	var running []int
	for done := 0; done < len(work); {
		for next < len(starts) && float64(starts[next]) <= now && int64(len(running)) < law.Concurrency {
			running = append(running, next)
			next++
		}
		factor := float64(slowdown(law, int64(len(running)))) / incident.PPM
		step := 1e18
		if next < len(starts) && float64(starts[next]) > now {
			step = float64(starts[next]) - now
		}
		for _, i := range running {
			step = min(step, left[i]*factor)
		}
		now += step
		running = slices.DeleteFunc(running, func(i int) bool {
			left[i] -= step / factor
			if left[i] > 0.01 {
				return false
			}
			ends[i] = int64(now)
			done++
			return true
		})
	}
	return ends
}
