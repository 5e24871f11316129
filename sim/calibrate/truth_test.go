package calibrate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

const epoch = model.Nanos(1_796_072_400) * model.Second

// truth is a provider whose law is known.
func truth(t *testing.T, law string) incident.Provider {
	t.Helper()
	inc, err := incident.Parse("test", strings.NewReader(fmt.Sprintf(`
name: test
duration: 1h
fleet: {agents: 1}
channels: [{name: main, provider: main}]
routes: [{name: r, tiers: [[{channel: main}]]}]
providers:
  - name: main
%s
workload:
  - {name: w, route: r, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}
`, law)))
	if err != nil {
		t.Fatal(err)
	}
	return inc.Providers[0]
}

// record lets an uncontrolled client call a provider and keeps what it sees:
// calls arrive at random, rate changes with time.
func record(p incident.Provider, seed uint64, length time.Duration, rate func(at float64) float64) *Log {
	dice := rand.New(rand.NewPCG(seed, 7))
	prov, _ := provider.New(provider.Config{Incident: p, Seed: seed})
	log := &Log{}
	type open struct{ c Call }
	running := map[uint64]open{}
	take := func(events []provider.Event) {
		for _, e := range events {
			if e.Kind == provider.First {
				continue
			}
			o := running[e.ID]
			delete(running, e.ID)
			o.c.Took = epoch + model.Nanos(e.At) - o.c.Sent
			o.c.Class, o.c.Status = model.ClassOK, 200
			if e.Kind == provider.Failed {
				o.c.Class, o.c.Status = model.ClassOverloaded, e.Status
			}
			log.Add(&o.c)
		}
	}
	var id uint64
	now := int64(0)
	for now < int64(length) {
		now += int64(dice.ExpFloat64() / rate(float64(now)/float64(length)) * 1e9)
		take(prov.Advance(now, nil))
		id++
		c := Call{
			Sent: epoch + model.Nanos(now), Request: id, Try: 1, Channel: "main", Tenant: "x", RetryAfter: -1,
			Input: 500 + dice.Int64N(4000), Output: 50 + dice.Int64N(400),
		}
		a := prov.Offer(now, provider.Call{ID: id, Request: id, Input: c.Input, Output: c.Output, Try: 1})
		if a.Ticket == 0 {
			r := a.Refusal
			c.Took, c.Class, c.Status, c.Code, c.Dimension, c.RetryAfter = model.Nanos(r.Delay), r.Class, r.Status, r.Code, r.Dimension, model.Nanos(r.RetryAfter)
			c.Output = 0 // nobody knows how long the answer would have been
			log.Add(&c)
			continue
		}
		running[id] = open{c}
	}
	for len(running) > 0 {
		now = max(now, prov.NextWake())
		take(prov.Advance(now, nil))
	}
	return log
}

func steady(rate float64) func(float64) float64 { return func(float64) float64 { return rate } }

// waves goes up and down around a rate.
func waves(rate float64) func(float64) float64 {
	return func(at float64) float64 {
		return rate * (1 + 0.6*float64(int(at*10)%2*2-1))
	}
}

func (l *Log) first(t *testing.T) Provider {
	t.Helper()
	l.sort()
	end := l.calls[0].sent
	for i := range l.calls {
		end = max(end, l.calls[i].end())
	}
	return l.provider(0, l.calls[0].sent, end)
}

const service = "    service: {base: 400ms, prefill_tokens_per_s: 10000, output_tokens_per_s: 200, cv: 0.2}\n"

func TestConcurrency(t *testing.T) {
	p := record(truth(t, "    concurrency: 40\n    queue: 3\n    slowdown: {from: 0.6, factor: 2}\n    refusal: {status: 200, code: \"2064\", shape: minimax, delay: 40ms}\n"+service), 1, 5*time.Minute, waves(20)).first(t)
	if len(p.Concurrency) != 1 || !p.Concurrency[0].Holds(43) || p.Concurrency[0].Open || p.Concurrency[0].High-p.Concurrency[0].Low > 4 {
		t.Errorf("concurrency %+v, want 43", p.Concurrency)
	}
	if p.Busy.Code != "2064" || p.Busy.Shape != incident.ShapeMiniMax || p.Busy.DelayMS != 40 || p.Busy.RetryAfter != "none" {
		t.Errorf("refusal %+v", p.Busy)
	}
	if p.Requests.Refused != 0 || !p.Requests.Open || !p.Tokens.Open {
		t.Errorf("rates %+v %+v, want open", p.Requests, p.Tokens)
	}
	t.Logf("%+v", p.Latency)
	t.Log(p.Notes)
}

func TestConcurrencySteps(t *testing.T) {
	p := record(truth(t, "    concurrency: 60\n    refusal: {status: 503}\n    changes: [{at: 4m, set: {concurrency: 25}}, {at: 7m, set: {concurrency: 90}}]\n"+service), 2, 10*time.Minute, steady(40)).first(t)
	if len(p.Concurrency) != 3 {
		t.Fatalf("stretches %+v, want 3", p.Concurrency)
	}
	for i, want := range []struct {
		limit float64
		from  time.Duration
	}{{60, 0}, {25, 4 * time.Minute}, {90, 7 * time.Minute}} {
		s := p.Concurrency[i]
		if !s.Holds(want.limit) || s.Open || (s.From.Duration()-want.from).Abs() > 5*time.Second {
			t.Errorf("stretch %+v, want %v from %s", s, want.limit, want.from)
		}
	}
}

func TestRates(t *testing.T) {
	for _, tt := range []struct {
		name, law string
		rate      float64
		limit     float64
		tokens    bool
		window    incident.WindowKind
	}{
		{"bucket", "rpm: {limit: 120, window: token_bucket, burst: 20}", 2.5, 120, false, incident.TokenBucket},
		{"fixed", "rpm: {limit: 100, window: fixed}", 3, 100, false, incident.FixedWindow},
		{"sliding", "rpm: {limit: 90, window: sliding}", 3, 90, false, incident.SlidingWindow},
		{"tokens", "tpm: {limit: 300000, window: token_bucket, burst: 60000}", 3, 300000, true, incident.TokenBucket},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := record(truth(t, "    "+tt.law+"\n    refusal: {status: 429, retry_after: exact}\n"+service), 3, 8*time.Minute, waves(tt.rate)).first(t)
			r := p.Requests
			if tt.tokens {
				r = p.Tokens
			}
			if r.Window != tt.window || !r.Holds(tt.limit) || r.Open {
				t.Errorf("%+v, want %v by %s", r, tt.limit, tt.window)
			}
			t.Logf("%+v notes %q", r, p.Notes)
		})
	}
}

// TestTruth draws worlds and wants the true limit inside the interval of 90 %,
// and intervals that say something.
// A handful must hold all but one; of fifty so many that fewer would be odd if
// the intervals were as wide as they say.
func TestTruth(t *testing.T) {
	worlds, least := 6, 5
	if os.Getenv("WEIR_LONG") != "" {
		worlds, least = 50, 42
	}
	held := 0
	var widths []float64
	for k := range worlds {
		dice := rand.New(rand.NewPCG(uint64(k), 11))
		law, limit, read := drawn(dice, k)
		calls := record(truth(t, law+service), uint64(k), time.Duration(4+dice.IntN(6))*time.Minute, waves(3+dice.Float64()*2))
		if strings.Contains(law, "concurrency") {
			calls = record(truth(t, law+service), uint64(k), 4*time.Minute, waves(limit/(1.2+dice.Float64())))
		}
		e := read(calls.first(t))
		if e.Open {
			e.High = math.Inf(1)
		}
		widths = append(widths, (e.High-e.Low)/limit)
		if e.Holds(limit) && !e.Open {
			held++
		} else {
			t.Logf("world %d: %+v does not hold %v of %s", k, e, limit, strings.TrimSpace(law))
		}
	}
	slices.Sort(widths)
	median := widths[len(widths)/2]
	t.Logf("%d of %d intervals hold the true limit; half are narrower than %.3f of it", held, worlds, median)
	if median > 0.25 {
		t.Errorf("the median interval is %.2f of the limit wide, want 0.25 at most", median)
	}
	if held < least {
		t.Errorf("%d of %d intervals hold the true limit, want %d", held, worlds, least)
	}
}

// drawn is a law with one limit, and how its estimate is read.
func drawn(dice *rand.Rand, k int) (law string, limit float64, read func(Provider) Estimate) {
	requests := func(p Provider) Estimate { return p.Requests.Estimate }
	switch k % 5 {
	case 0:
		n := 60 + dice.IntN(80)
		return fmt.Sprintf("    rpm: {limit: %d, window: token_bucket, burst: %d}\n    refusal: {retry_after: exact}\n", n, 5+dice.IntN(n)), float64(n), requests
	case 1:
		n := 60 + dice.IntN(80)
		return fmt.Sprintf("    rpm: {limit: %d, window: fixed}\n    refusal: {charged: true}\n", n), float64(n), requests
	case 2:
		n := 60 + dice.IntN(80)
		return fmt.Sprintf("    rpm: {limit: %d, window: sliding}\n    refusal: {status: 429}\n", n), float64(n), requests
	case 3:
		n := 200_000 + dice.IntN(200_000)
		return fmt.Sprintf("    tpm: {limit: %d, window: token_bucket, burst: %d}\n    refusal: {status: 429}\n", n, 20_000+dice.IntN(n)), float64(n), func(p Provider) Estimate { return p.Tokens.Estimate }
	}
	n, queue := 10+dice.IntN(60), dice.IntN(8)
	return fmt.Sprintf("    concurrency: %d\n    queue: %d\n    slowdown: {from: 0.5, factor: %.1f}\n    refusal: {status: 529, shape: anthropic}\n", n, queue, 1+2*dice.Float64()), float64(n + queue), func(p Provider) Estimate {
		return p.Concurrency[len(p.Concurrency)-1].Estimate
	}
}

// TestNoRefusal gives a log in which nothing was refused: every limit is open.
func TestNoRefusal(t *testing.T) {
	log := record(truth(t, "    concurrency: 400\n    rpm: {limit: 100000}\n"+service), 4, 2*time.Minute, steady(10))
	p := log.first(t)
	if len(p.Concurrency) != 1 || !p.Concurrency[0].Open || !p.Requests.Open || !p.Tokens.Open || p.Concurrency[0].Low > 400 {
		t.Errorf("%+v", p)
	}
	w, err := Build(log, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if law := w.Incident.Providers[0].Law; law.Concurrency >= 0 || law.RPM.Limit >= 0 || !strings.Contains(w.Text, "seen only from below") {
		t.Errorf("limits were made up:\n%s", w.Text)
	}
}
