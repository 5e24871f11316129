package provider

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/model"
	"weir/sim/incident"
)

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// spec parses a provider from the lines under its name.
func spec(t *testing.T, lines string) incident.Provider {
	t.Helper()
	text := `
name: test
duration: 1h
fleet: {agents: 1}
channels: [{name: c, provider: main}]
routes: [{name: r, tiers: [[{channel: c}]]}]
workload: [{name: w, route: r, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}]
providers:
  - name: main
`
	for line := range strings.Lines(strings.TrimSpace(lines) + "\n") {
		text += "    " + strings.TrimSpace(line) + "\n"
	}
	inc, err := incident.Parse("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return inc.Providers[0]
}

func build(t *testing.T, lines string) (*Provider, *Truth) {
	t.Helper()
	return New(Config{Incident: spec(t, lines), Seed: 1, Ideal: true})
}

// offer sends a call of one second's nominal work when the provider makes 1000
// tokens a second, and says what came of it.
func offer(p *Provider, now int64, id uint64) Answer {
	return p.Offer(now, Call{ID: id, Request: id, Try: 1, Output: 1000})
}

// trace renders events for comparison.
func trace(events []Event) (out []string) {
	for _, e := range events {
		out = append(out, fmt.Sprintf("%v %d %v", time.Duration(e.At).Round(time.Microsecond), e.ID, e.Kind))
	}
	return out
}

func TestServiceTimeIsBasePrefillAndOutput(t *testing.T) {
	p, _ := build(t, `service: {base: 200ms, prefill_tokens_per_s: 20000, output_tokens_per_s: 100}`)
	p.Offer(0, Call{ID: 7, Input: 4000, Output: 50})
	p.Offer(0, Call{ID: 8, Input: 4000, Output: 500, MaxTokens: 20})
	want := []string{"400ms 7 first", "400ms 8 first", "600ms 8 done", "900ms 7 done"}
	if d := cmp.Diff(want, trace(p.Advance(sec, nil))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// TestWorkIsSharedAtThePaceOfTheMoment: two calls at the cap run at a quarter
// of the pace; when one ends the other goes on alone at full pace.
func TestWorkIsSharedAtThePaceOfTheMoment(t *testing.T) {
	p, truth := build(t, `
		concurrency: 2
		service: {output_tokens_per_s: 1000}
		slowdown: {from: 0.5, factor: 4}`)
	offer(p, 0, 1)
	if got := truth.Slowdown(); got != incident.PPM {
		t.Errorf("slowdown at half the cap: %d", got)
	}
	offer(p, 500*ms, 2)
	if got := truth.Slowdown(); got != 4*incident.PPM {
		t.Errorf("slowdown at the cap: %d", got)
	}
	// Call 1 has 500 ms of work left: 2 s at a quarter. Call 2 has done 500 ms
	// by then and needs 500 ms more alone.
	want := []string{"2.5s 1 done", "3s 2 done"}
	var got []string
	for _, line := range trace(p.Advance(10*sec, nil)) {
		if strings.HasSuffix(line, "done") {
			got = append(got, line)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ends (-want +got):\n%s", d)
	}
}

func TestQueueIsFirstComeFirstServedThenRefuses(t *testing.T) {
	p, truth := build(t, `
		concurrency: 1
		queue: 2
		service: {output_tokens_per_s: 1000}
		refusal: {delay: 30ms, retry_after: exact}`)
	for id := range uint64(3) {
		if a := offer(p, 0, id); !a.Accepted() {
			t.Fatalf("call %d refused", id)
		}
	}
	a := offer(p, 100*ms, 3)
	want := Refusal{
		Status: 503, Code: "server_is_overloaded", Shape: incident.ShapeOpenAI, Class: model.ClassOverloaded,
		Delay: 30 * time.Millisecond, RetryAfter: 900 * time.Millisecond,
	}
	if d := cmp.Diff(want, a.Refusal); d != "" {
		t.Errorf("refusal (-want +got):\n%s", d)
	}
	var ends []string
	for _, e := range p.Advance(10*sec, nil) {
		if e.Kind == Done {
			ends = append(ends, fmt.Sprint(e.ID, " ", time.Duration(e.At)))
		}
	}
	if d := cmp.Diff([]string{"0 1s", "1 2s", "2 3s"}, ends); d != "" {
		t.Errorf("ends (-want +got):\n%s", d)
	}
	b := truth.Books()
	if b.Offered != 4 || b.Accepted != 3 || b.Served != 3 || b.Refused.Concurrency != 1 || b.MaxRunning != 1 || b.MaxInFlight != 3 {
		t.Errorf("books: %+v", b)
	}
}

func TestAbandonedWorkGoesOnAndHoldsItsSlot(t *testing.T) {
	for _, abandoned := range []bool{true, false} {
		p, truth := build(t, fmt.Sprintf(`
			concurrency: 1
			service: {output_tokens_per_s: 1000}
			abandoned_work: %v`, abandoned))
		a := offer(p, 0, 1)
		if !p.Cancel(500*ms, a.Ticket) {
			t.Fatal("cancel found no call")
		}
		if p.Cancel(500*ms, a.Ticket) {
			t.Error("second cancel found a call")
		}
		if got := offer(p, 600*ms, 2).Accepted(); got == abandoned {
			t.Errorf("abandoned_work %v: slot free is %v", abandoned, got)
		}
		for _, e := range p.Advance(10*sec, nil) {
			if e.ID == 1 && e.At > 500*ms {
				t.Errorf("abandoned_work %v: event for a client that left: %+v", abandoned, e)
			}
		}
		b := truth.Books()
		wantTokens := int64(500) // half of the work was done
		if abandoned {
			wantTokens = 1000
		}
		if b.Abandoned != 1 || b.WastedTokens != wantTokens {
			t.Errorf("abandoned_work %v: abandoned %d, wasted tokens %d, want 1 and %d", abandoned, b.Abandoned, b.WastedTokens, wantTokens)
		}
	}
}

func TestStreamedGrowsWithTheWork(t *testing.T) {
	p, _ := build(t, `service: {base: 500ms, output_tokens_per_s: 1000}`)
	ticket := offer(p, 0, 1).Ticket
	var got []int64
	for _, at := range []int64{0, 400 * ms, 500 * ms, 750 * ms, 1499 * ms, 1500 * ms} {
		got = append(got, p.Streamed(at, ticket))
	}
	if d := cmp.Diff([]int64{0, 0, 0, 250, 999, 0}, got); d != "" {
		t.Errorf("tokens (-want +got):\n%s", d)
	}
	if p.Streamed(0, 0)+p.Streamed(0, ^Ticket(0)) != 0 {
		t.Error("tokens of no call")
	}
}

func TestStaleTicketsCancelNothing(t *testing.T) {
	p, truth := build(t, `service: {output_tokens_per_s: 1000}`)
	old := offer(p, 0, 1).Ticket
	p.Advance(2*sec, nil)
	offer(p, 2*sec, 2)
	for _, ticket := range []Ticket{0, old, old + 7, 1 << 63, ^Ticket(0)} {
		if p.Cancel(2*sec, ticket) {
			t.Errorf("ticket %x cancelled something", ticket)
		}
	}
	if b := truth.Books(); b.Running != 1 || b.Abandoned != 0 {
		t.Errorf("books: %+v", b)
	}
}

func TestScriptMovesNumbersLinearlyAndSwitchesTheRest(t *testing.T) {
	_, truth := build(t, `
		concurrency: 100
		refusal: {code: first}
		changes:
		- {at: 10m, over: 10m, set: {concurrency: 40, queue: 10, refusal: {code: second}}}
		- {at: 15m, over: 5m, set: {concurrency: 100}}
		- {at: 30m, set: {rpm: {limit: 60}}}
		- {at: 40m, over: 10m, set: {rpm: {limit: 120}}}`)
	for _, want := range []struct {
		at                      time.Duration
		concurrency, queue, rpm int64
		code                    string
	}{
		{0, 100, 0, -1, "first"},
		{10*time.Minute - 1, 100, 0, -1, "first"},
		{10 * time.Minute, 100, 0, -1, "second"},
		{15 * time.Minute, 70, 5, -1, "second"},
		{17*time.Minute + 30*time.Second, 85, 7, -1, "second"}, // from where it was, not from 40
		{20 * time.Minute, 100, 10, -1, "second"},
		{30 * time.Minute, 100, 10, 60, "second"}, // a limit appears at once
		{45 * time.Minute, 100, 10, 90, "second"},
	} {
		law := truth.LawAt(int64(want.at))
		if law.Concurrency != want.concurrency || law.Queue != want.queue || law.RPM.Limit != want.rpm || law.Refusal.Code != want.code {
			t.Errorf("at %v: concurrency %d, queue %d, rpm %d, code %s; want %+v", want.at, law.Concurrency, law.Queue, law.RPM.Limit, law.Refusal.Code, want)
		}
	}
}

func TestShrinkingCapEndsNoCallAndGrowingStartsTheQueue(t *testing.T) {
	p, truth := build(t, `
		concurrency: 4
		queue: 4
		service: {output_tokens_per_s: 100}
		changes:
		- {at: 1s, set: {concurrency: 2}}
		- {at: 2s, set: {concurrency: 6}}`)
	for id := range uint64(6) {
		offer(p, 0, id)
	}
	p.Advance(sec, nil)
	if running, waiting := truth.InFlight(); running != 4 || waiting != 2 {
		t.Errorf("after the cut: %d running, %d waiting, want 4 and 2", running, waiting)
	}
	p.Advance(2*sec, nil)
	if running, waiting := truth.InFlight(); running != 6 || waiting != 0 {
		t.Errorf("after the rise: %d running, %d waiting, want 6 and 0", running, waiting)
	}
}

func TestNoiseFailsItsShareWithoutMeaning(t *testing.T) {
	p, truth := build(t, `
		service: {base: 10ms, output_tokens_per_s: 1000}
		noise: {error_rate: 0.1, status: 502}`)
	failed := 0
	for id := range uint64(2000) {
		offer(p, int64(id)*ms, id)
	}
	for _, e := range p.Advance(100*sec, nil) {
		if e.Kind == Failed {
			failed++
			if e.Status != 502 {
				t.Fatalf("status %d", e.Status)
			}
		}
	}
	if failed < 150 || failed > 250 {
		t.Errorf("%d of 2000 calls failed, want about 200", failed)
	}
	if b := truth.Books(); b.Failed != int64(failed) || b.Served != int64(2000-failed) {
		t.Errorf("books: %+v", b)
	}
}

func TestLimitOfNothingIsNoFaultOfTheCall(t *testing.T) {
	p, truth := build(t, "rpm: {limit: 0, burst: 1}\ntpm: {limit: 100, burst: 100}")
	p.Offer(0, Call{Request: 1, Input: 1})
	p.Offer(0, Call{Request: 2, Input: 1})
	p.Offer(0, Call{Request: 3, Input: 101})
	if got, want := truth.Books().Refused, (Refused{Requests: 1, TooLarge: 1}); got != want {
		t.Errorf("refused %+v, want %+v", got, want)
	}
}

func TestBanBlocksAfterTooManyRefusals(t *testing.T) {
	p, truth := build(t, `
		concurrency: 0
		refusal: {retry_after: exact}
		ban: {refusals: 3, in: 10s, for: 60s}
		changes:
		- {at: 21s, set: {concurrency: 5}}`)
	for i, at := range []int64{0, 8, 18, 19, 20} { // only 18, 19 and 20 are three within 10 s
		offer(p, at*sec, uint64(i))
	}
	a := offer(p, 30*sec, 9)
	if a.Accepted() || a.Refusal.RetryAfter != 50*time.Second {
		t.Errorf("during the ban: accepted %v, retry after %v, want 50s", a.Accepted(), a.Refusal.RetryAfter)
	}
	if !offer(p, 80*sec, 10).Accepted() {
		t.Error("after the ban: refused")
	}
	if b := truth.Books(); b.Refused.Concurrency != 5 || b.Refused.Ban != 1 {
		t.Errorf("refused: %+v", b.Refused)
	}
}

// TestBansWiden: each ban is twice as long as the one before, up to the most,
// until one long enough ago is forgotten.
func TestBansWiden(t *testing.T) {
	p, _ := build(t, `
		concurrency: 0
		refusal: {retry_after: exact}
		ban: {refusals: 1, in: 1s, for: 10s, widen: 2, most: 35s, forget: 1m}`)
	now := int64(0)
	for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 35 * time.Second, 35 * time.Second} {
		offer(p, now, 1)
		if got := offer(p, now, 2).Refusal.RetryAfter; got != want {
			t.Errorf("ban %d: %v, want %v", i+1, got, want)
		}
		now += int64(want)
	}
	now += 61 * sec
	offer(p, now, 1)
	if got, want := offer(p, now, 2).Refusal.RetryAfter, 10*time.Second; got != want {
		t.Errorf("ban after a quiet time: %v, want %v", got, want)
	}
}

// TestSayingNoHoldsASlot: while two refusals are on their way to their senders
// nothing can start in their slots, and the queue moves when they arrived.
func TestSayingNoHoldsASlot(t *testing.T) {
	p, truth := build(t, `
		concurrency: 2
		queue: 1
		service: {output_tokens_per_s: 1000}
		refusal: {delay: 3s, holds_slot: true}`)
	for id := range uint64(3) {
		if !offer(p, 0, id).Accepted() {
			t.Fatalf("call %d is refused with room left", id)
		}
	}
	for id := uint64(3); id < 5; id++ {
		if offer(p, 500*ms, id).Accepted() {
			t.Fatalf("call %d is taken without room", id)
		}
	}
	events := trace(p.Advance(3400*ms, nil))
	if got, want := events[len(events)-1], "1s 1 done"; got != want {
		t.Errorf("last event before the refusals arrived: %s, want %s", got, want)
	}
	if got := truth.Books().Refusing; got != 2 {
		t.Errorf("%d slots held by refusals, want 2", got)
	}
	events = trace(p.Advance(10*sec, nil))
	if got, want := events[len(events)-1], "4.5s 2 done"; got != want {
		t.Errorf("the queued call: %s, want %s", got, want)
	}
}

// TestRatesMayCountOverOtherTimesThanAMinute: fourteen in each fixed two
// seconds.
func TestRatesMayCountOverOtherTimesThanAMinute(t *testing.T) {
	p, _ := build(t, `rpm: {limit: 14, window: fixed, per: 2s}`)
	accepted := 0
	for i := range int64(1000) {
		if offer(p, i*20*ms, uint64(i)).Accepted() {
			accepted++
		}
	}
	if accepted < 10*14 || accepted > 11*14 {
		t.Errorf("%d of 1000 calls in 20 s accepted, want 14 in each of ten or eleven windows", accepted)
	}
}

func TestRefusalsSayWhatTheShapeOrTheLawSays(t *testing.T) {
	for _, c := range []struct {
		law    incident.Refusal
		reason incident.Reason
		status int
		code   string
		class  model.Class
		dim    model.Dimension
	}{
		{incident.Refusal{Shape: incident.ShapeOpenAI}, incident.ReasonTokens, 429, "rate_limit_exceeded", model.ClassRateLimited, model.DimTokens},
		{incident.Refusal{Shape: incident.ShapeAnthropic}, incident.ReasonConcurrency, 529, "overloaded_error", model.ClassOverloaded, model.DimNone},
		{incident.Refusal{Shape: incident.ShapeGemini}, incident.ReasonDay, 429, "RESOURCE_EXHAUSTED", model.ClassQuotaExhausted, model.DimDay},
		{incident.Refusal{Shape: incident.ShapeMiniMax}, incident.ReasonRequests, 200, "1002", model.ClassRateLimited, model.DimRequests},
		{incident.Refusal{Shape: incident.ShapeFlat}, incident.ReasonTooLarge, 429, "rate_limit_exceeded", model.ClassInvalid, model.DimTokens},
		// A hidden quota that calls itself overload.
		{incident.Refusal{Shape: incident.ShapeMiniMax, Status: 200, Code: "2064"}, incident.ReasonTokens, 200, "2064", model.ClassOverloaded, model.DimNone},
		// A bare status says no more than itself.
		{incident.Refusal{Shape: incident.ShapeOpenAI, Status: 429}, incident.ReasonConcurrency, 429, "", model.ClassRateLimited, model.DimNone},
		{incident.Refusal{Shape: incident.ShapeOpenAI, Status: 503}, incident.ReasonRequests, 503, "", model.ClassOverloaded, model.DimNone},
	} {
		r := say(&c.law, c.reason)
		if r.Status != c.status || r.Code != c.code || r.Class != c.class || r.Dimension != c.dim {
			t.Errorf("%+v for %s: got %d %q %v %v, want %d %q %v %v",
				c.law, c.reason, r.Status, r.Code, r.Class, r.Dimension, c.status, c.code, c.class, c.dim)
		}
	}
}

func TestBestInFlightIsTheTopOfTheCurve(t *testing.T) {
	for _, lines := range []string{
		"concurrency: 240\nslowdown: {from: 0.7, factor: 4}",
		"concurrency: 240\nslowdown: {from: 0.7, factor: 4}\nbackground: {concurrency: 200}",
		"concurrency: 7\nslowdown: {from: 0, factor: 10}",
		"concurrency: 100",
		"concurrency: 0",
		"concurrency: 10\nbackground: {concurrency: 20}",
	} {
		law := spec(t, lines).Law
		best, top := int64(0), int64(-1)
		for n := int64(0); n <= slots(&law); n++ {
			if rate := n * incident.PPM * 1000 / slowdown(&law, n+law.Background); rate > top {
				best, top = n, rate
			}
		}
		if got := bestInFlight(&law); got != best {
			t.Errorf("%q: got %d, want %d", lines, got, best)
		}
	}
}

// TestIdealServesWhatTheBestRateAllows: with a cap of 10 and no slowdown, calls
// of 1 s and demand of 20 a second, ten a second can be served.
func TestIdealServesWhatTheBestRateAllows(t *testing.T) {
	p, truth := build(t, `
		concurrency: 10
		service: {output_tokens_per_s: 1000}`)
	for i := range int64(2000) {
		truth.Demand(i*50*ms, Demand{Request: uint64(i), Output: 1000, Deadline: i*50*ms + 10*sec})
	}
	p.Advance(100*sec, nil)
	b := truth.Books()
	if b.CouldHaveServed < 990 || b.CouldHaveServed > 1000 {
		t.Errorf("could have served %d in 100 s, want 990 to 1000", b.CouldHaveServed)
	}
	if b.CouldHaveServed+b.CouldHaveExpired+b.CouldHaveWaiting+10 != 2000 {
		t.Errorf("demand does not add up: %+v", b)
	}
	if b.CouldHaveExpired == 0 {
		t.Error("twice the capacity and ten seconds of patience, but nothing expired")
	}
}

func TestIdealKeepsToTheLimitsPerMinute(t *testing.T) {
	p, truth := build(t, `rpm: {limit: 60, burst: 5}`)
	for i := range uint64(1000) {
		offer(p, int64(i)*ms, i) // refused calls are demand all the same
	}
	p.Advance(60*sec, nil)
	if got := truth.Books().CouldHaveServed; got != 5+60 {
		t.Errorf("could have served %d in a minute, want the burst of 5 and 60", got)
	}
}
