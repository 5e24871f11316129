package probe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/cmd/weir/config"
	"weir/cmd/weir/emulator"
	"weir/sim/incident"
)

// world is an emulated provider with the given lines.
func world(t *testing.T, lines string) *emulator.Server {
	t.Helper()
	text := `
name: test
duration: 1h
fleet: {agents: 1}
channels: [{name: big, provider: main}]
routes: [{name: r, tiers: [[{channel: big}]]}]
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
	s, err := emulator.New(emulator.Config{Incident: inc, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// direct hands calls to a handler without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// bounds are those of the command line.
var bounds = Bounds{Requests: 1200, Tokens: 300_000, Refusals: 30, Time: 15 * time.Minute, InFlight: 64}

func probe(t *testing.T, h http.Handler, o Options) Outcome {
	t.Helper()
	o.URL, o.Model, o.Client = "http://provider.test/v1", "big", &http.Client{Transport: direct{h}}
	if o.API == "" {
		o.API = OpenAI
	}
	if o.Bounds == (Bounds{}) {
		o.Bounds = bounds
	}
	out, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	out.Show(&text)
	t.Log(text.String())
	return out
}

func finding(t *testing.T, o *Outcome, dimension string) Finding {
	t.Helper()
	for _, f := range o.Findings {
		if f.Dimension == dimension {
			return f
		}
	}
	t.Fatalf("no finding of %s: %+v", dimension, o.Findings)
	return Finding{}
}

// TestFinds probes providers whose limits are hidden. What is proposed must be
// below the limit, and at least the stated share of it.
func TestFinds(t *testing.T) {
	for _, c := range []struct {
		name, lines, dimension string
		api                    API
		truth                  int64
		share                  float64 // of the truth that is proposed at least
	}{
		{"calls at once", `concurrency: 20`, "concurrency", OpenAI, 20, 0.7},
		{"calls at once in a success", "concurrency: 11\nrefusal: {shape: minimax, status: 200, code: \"2064\", delay: 50ms}", "concurrency", OpenAI, 11, 0.7},
		{"calls at once without a name", "concurrency: 23\nrefusal: {status: 429, code: rate_limit_exceeded, delay: 20ms}", "concurrency", OpenAI, 23, 0.65},
		{"calls at once of the other API", "concurrency: 9\nrefusal: {shape: anthropic}", "concurrency", Anthropic, 9, 0.6},
		{"calls that queue inside", "concurrency: 12\nqueue: 40", "concurrency", OpenAI, 12, 0.4},
		{"one call at once", `concurrency: 1`, "concurrency", OpenAI, 1, 1},
		{"a bucket of a minute", `rpm: {limit: 60}`, "requests", OpenAI, 60, 0.65},
		{"a bucket of five seconds", `rpm: {limit: 600, burst: 50}`, "requests", OpenAI, 600, 0.6},
		{"a bucket of one second", `rpm: {limit: 120, burst: 2}`, "requests", OpenAI, 120, 0.55},
		{"a fixed window", `rpm: {limit: 60, window: fixed}`, "requests", OpenAI, 60, 0.6},
		{"a sliding window", `rpm: {limit: 100, window: sliding}`, "requests", OpenAI, 100, 0.6},
		{"a window with hints", "rpm: {limit: 80, window: fixed}\nrefusal: {retry_after: exact}", "requests", OpenAI, 80, 0.6},
		{"requests without a name", "rpm: {limit: 60}\nrefusal: {status: 429, code: rate_limit_exceeded, delay: 20ms}", "requests", OpenAI, 60, 0.6},
		{"refusals that are charged", "rpm: {limit: 60, window: sliding}\nrefusal: {charged: true, retry_after: exact}", "requests", OpenAI, 60, 0.2},
		{"tokens", `tpm: {limit: 60000, burst: 5000}`, "tokens", OpenAI, 60_000, 0.5},
		{"tokens of a fixed window", `tpm: {limit: 60000, window: fixed}`, "tokens", Anthropic, 60_000, 0.5},
		{"tokens below requests", "rpm: {limit: 60}\ntpm: {limit: 50000, burst: 10000}", "tokens", OpenAI, 50_000, 0.5},
		{"requests told", "rpm: {limit: 500}\ntpm: {limit: 200000}\nrefusal: {headers: true}", "requests", OpenAI, 500, 0.74},
		{"tokens told", "rpm: {limit: 500}\ntpm: {limit: 200000}\nrefusal: {headers: true}", "tokens", OpenAI, 200_000, 0.74},
	} {
		if testing.Short() && c.truth >= 100 {
			continue // they take the longest
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := world(t, "service: {base: 300ms, output_tokens_per_s: 100, cv: 0.1}\n"+c.lines)
				defer s.Close()
				out := probe(t, s, Options{Target: Target{API: c.api}, Dimensions: Dimensions()})
				f := finding(t, &out, c.dimension)
				if f.Proposed == nil || f.High == nil {
					t.Fatalf("nothing proposed: %+v", f)
				}
				if got := *f.Proposed; got > c.truth || float64(got) < c.share*float64(c.truth) {
					t.Errorf("proposed %d of %d, want %.0f to %d: %+v", got, c.truth, c.share*float64(c.truth), c.truth, f)
				}
				if f.Low > c.truth*106/100 || *f.High < c.truth {
					t.Errorf("%d is not in %d to %d", c.truth, f.Low, *f.High)
				}
				checkFragment(t, &out)
			})
		})
	}
}

// checkFragment reads the fragment as the configuration it is part of.
func checkFragment(t *testing.T, o *Outcome) {
	t.Helper()
	text := o.Fragment("big", "openai", "PROVIDER_KEY")
	f, err := config.Parse("fragment", strings.NewReader(text), time.Now())
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	got := f.Model.Channels[0].Limits
	want := map[string]int64{"concurrency": got.Concurrency, "requests": got.RequestsPerMinute, "tokens": int64(got.TokensPerMinute)}
	for _, x := range o.Findings {
		if x.Proposed != nil && *x.Proposed != want[x.Dimension] || x.Proposed == nil && want[x.Dimension] != 0 {
			t.Errorf("%s: the fragment has %d: %+v\n%s", x.Dimension, want[x.Dimension], x, text)
		}
	}
}

// TestOpen probes a provider that refuses nothing within the bounds.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := world(t, "service: {base: 300ms, output_tokens_per_s: 100}\nrpm: {limit: 100000}")
		defer s.Close()
		out := probe(t, s, Options{Dimensions: Dimensions()})
		for _, f := range out.Findings {
			if f.High != nil || f.Proposed != nil || f.Note == "" {
				t.Errorf("want an open interval with a reason, got %+v", f)
			}
		}
		if f := finding(t, &out, "concurrency"); f.Low != 64 {
			t.Errorf("calls at once: %+v, want 64", f)
		}
		checkFragment(t, &out)
	})
}

// TestBoundsHold probes with small bounds.
func TestBoundsHold(t *testing.T) {
	for _, b := range []Bounds{
		{Requests: 7, Tokens: 100_000, Refusals: 5, Time: time.Minute, InFlight: 16},
		{Requests: 1000, Tokens: 900, Refusals: 5, Time: time.Minute, InFlight: 16},
		{Requests: 1000, Tokens: 100_000, Refusals: 1, Time: time.Minute, InFlight: 16},
		{Requests: 1000, Tokens: 100_000, Refusals: 50, Time: 5 * time.Second, InFlight: 3},
	} {
		t.Run(fmt.Sprint(b), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := world(t, "service: {base: 300ms, output_tokens_per_s: 100}\nrpm: {limit: 60, burst: 20}\nconcurrency: 6")
				defer s.Close()
				start := time.Now()
				out := probe(t, s, Options{Bounds: b, Dimensions: Dimensions()})
				if out.Stopped == "" {
					t.Error("want a reason why it stopped")
				}
				got := out.Spent
				if got.Requests > b.Requests || got.Tokens > b.Tokens || got.Refusals > b.Refusals+2 {
					t.Errorf("spent %+v of %+v", got, b)
				}
				if took := time.Since(start); took > b.Time+3*time.Second {
					t.Errorf("took %s", took)
				}
				books := s.Books()
				if books.Offered > b.Requests {
					t.Errorf("the provider saw %d calls", books.Offered)
				}
			})
		})
	}
}
