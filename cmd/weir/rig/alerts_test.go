package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/events"
	"weir/events/natslog"
	"weir/model"
	"weir/sim/incident"
)

// The recording of what fleets show while they are well, and while something
// is wrong with them, and how often.
const (
	recording   = "../deploy/testdata/recorded_test.yml"
	recordEvery = 15 * time.Second
	recordTimes = 35
)

// ward is a fleet of which something is wrong, or nothing.
type ward struct {
	name    string
	about   string   // YAML of its incident, from channels on
	clients int      // callers, each one call after the other
	queue   int      // places at the agent, 0 for its default
	fires   []string // the alerts of its cause
	harm    func(ctx context.Context, t *testing.T, s *Stack)
	halfway bool // harm comes in the middle, not at the first look
	through func(events.Log) events.Log
}

func wards() []ward {
	const rest = `
routes: [{name: default, tiers: [[{channel: main}]]}]
workload: [{name: w, route: default, arrivals: {kind: poisson, rate: 1}, input_tokens: {kind: fixed, value: 1}, output_tokens: {kind: fixed, value: 1}}]
`
	channel := func(limits, provider string) string {
		return fmt.Sprintf("channels: [{name: main, provider: main, limits: {%s}}]\nproviders: [{name: main, %s}]%s", limits, provider, rest)
	}
	slow := new(atomic.Int64)
	const fast = "concurrency: 200, service: {base: 200ms, output_tokens_per_s: 1000}"
	return []ward{
		{name: "a fleet that is well", about: channel("rpm: 6000", fast), clients: 4},
		{name: "a provider that refuses", about: channel("", fast+", noise: {error_rate: 0.2, status: 529}"), clients: 4, fires: []string{"WeirRefusalsRising"}},
		{name: "a quota that is spent", about: channel("", fast+", tokens_per_day: 3000"), clients: 4, fires: []string{"WeirBreakerOpen", "WeirQuotaExhausted"}},
		{name: "more work than the budget", about: channel("rpm: 60", fast), clients: 60, fires: []string{"WeirBudgetNearlyGone", "WeirCallsWaitLong"}},
		{name: "reports that never came", about: channel("", fast), clients: 2, fires: []string{"WeirEventsLost"}, harm: loseReports, halfway: true},
		{name: "a log that was replaced", about: channel("", fast), clients: 2, fires: []string{"WeirEventsLost", "WeirLogFault"}, harm: replaceLog, halfway: true},
		{name: "no bus and no controller", about: channel("", fast), clients: 2, fires: []string{"WeirAgentAlone", "WeirNoLeader"}, harm: stopBus},
		{name: "more callers than places", about: channel("rpm: 60", fast), clients: 60, queue: 8, fires: []string{"WeirBoundFull", "WeirBudgetNearlyGone"}},
		{
			name: "a controller that is too slow", about: channel("", fast), clients: 2, fires: []string{"WeirAgentAlone", "WeirFoldLags"},
			through: func(l events.Log) events.Log { return &slowLog{l, slow} },
			harm: func(ctx context.Context, t *testing.T, s *Stack) {
				slow.Store(int64(20 * time.Millisecond))
				write(ctx, t, s)
			},
		},
	}
}

// loseReports has an agent's third report follow its first.
func loseReports(_ context.Context, t *testing.T, s *Stack) {
	all, err := s.Writers([]string{"lossy"})
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 3} {
		if err := all[0].Write(t.Context(), events.Encode(nil, &model.Attempts{Source: model.Source{Agent: "lossy", Boot: 1, Seq: seq, Span: 1, Base: 20 * (seq - 1)}, Leaving: seq == 3})); err != nil {
			t.Fatal(err)
		}
	}
}

// replaceLog puts an empty log in the place of the one there is, as a disk
// that was restored does.
func replaceLog(_ context.Context, t *testing.T, s *Stack) {
	nc, err := s.server.Connect(natslog.Options{Name: "harm"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if info := stream.CachedInfo(); slices.ContainsFunc(info.Config.Subjects, func(s string) bool { return strings.Contains(s, ".log.") }) {
			if err := js.DeleteStream(t.Context(), name); err != nil {
				t.Error(err)
			}
			if _, err := js.CreateStream(t.Context(), info.Config); err != nil {
				t.Error(err)
			}
		}
	}
}

// stopBus ends the bus, and with it the process that has both.
func stopBus(_ context.Context, _ *testing.T, s *Stack) {
	_ = s.stopBus() // what then fails is what is looked for
	s.failed <- errors.New("ended")
}

// write has ten agents report, together two hundred times a second, until ctx
// ends: four times as often as a controller reads that takes 20 ms an entry.
func write(ctx context.Context, t *testing.T, s *Stack) {
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprintf("busy-%d", i)
	}
	all, err := s.Writers(names)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := uint64(0); ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			i := n % uint64(len(all))
			report := &model.Attempts{Source: model.Source{Agent: names[i], Boot: 1, Seq: 1 + n/uint64(len(all)), Span: 1}}
			if err := all[i].Write(ctx, events.Encode(nil, report)); err != nil {
				return // the fleet ends
			}
		}
	}()
}

// TestReplacedLogIsSeen holds the harm that is recorded to what it is for.
func TestReplacedLogIsSeen(t *testing.T) {
	t.Parallel()
	inc, err := incident.Parse("ward", strings.NewReader("name: ward\nduration: 1h\nfleet: {agents: 1}\n"+wards()[0].about))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Config: inc.Told("test"), Agents: 1, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	url, err := s.Web(nil)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	replaceLog(t.Context(), t, s)
	waitFor(t, "a fault", func() bool {
		text := get(t, url+"/metrics")
		return regexp.MustCompile(`weir_log_faults_total\{kind="[a-z]+"\} [1-9]`).MatchString(text)
	})
	t.Log(regexp.MustCompile(`(weir_log_faults_total\{kind="[a-z]+"\}|weir_events_lost_total) [1-9].*`).FindAllString(get(t, url+"/metrics"), -1))
}

// TestRecordAlerts records anew what each ward shows; it takes nine minutes.
func TestRecordAlerts(t *testing.T) {
	if os.Getenv("WEIR_RECORD") == "" {
		t.Skip("takes nine minutes and writes a file: WEIR_RECORD=1")
	}
	all := wards()
	texts := make([]string, len(all))
	var beds sync.WaitGroup
	for i := range all {
		beds.Go(func() { texts[i] = all[i].record(t) })
	}
	beds.Wait()
	text := "# What live fleets showed to Prometheus every 15 s, and which alerts that must\n# have brought: written by TestRecordAlerts of cmd/weir/rig.\nrule_files: [../alerts.yml]\nevaluation_interval: 15s\ntests:\n" + strings.Join(texts, "")
	if err := os.WriteFile(recording, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// record runs a ward and returns its series with what they must bring, as
// promtool reads it.
func (w *ward) record(t *testing.T) string {
	inc, err := incident.Parse("ward", strings.NewReader("name: ward\nduration: 1h\nfleet: {agents: 1}\n"+w.about))
	if err != nil {
		t.Error(w.name, err)
		return ""
	}
	p, err := StartProviders(inc, 1)
	if err != nil {
		t.Error(w.name, err)
		return ""
	}
	defer func() { _ = p.Close() }()
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Config: inc.Told("test"), Agents: 1, Upstreams: p.Upstreams(), Version: "test", Queue: w.queue, Through: w.through})
	if err != nil {
		t.Error(w.name, err)
		return ""
	}
	defer func() { _ = s.Close() }() // some are broken on purpose
	controller, err := s.Web(nil)
	if err != nil {
		t.Error(w.name, err)
		return ""
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range w.clients {
		calls.Go(func() { callOn(ctx, s.Sidecars[0]) })
	}
	defer func() { cancel(); calls.Wait() }()
	series, watched := map[string][]string{}, alertMetrics(t)
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for n := range recordTimes {
		if w.harm != nil && (n == recordTimes/2 && w.halfway || n == 4 && !w.halfway) {
			w.harm(ctx, t, s)
		}
		look(series, watched, n, s.Sidecars[0])
		select {
		case err := <-s.Failed: // a process would end
			t.Log(w.name, err)
			controller = ""
		default:
		}
		if controller != "" {
			look(series, watched, n, controller)
		}
		<-tick.C
	}
	return w.write(series)
}

// callOn makes a call, waits for a moment, and so on until ctx ends.
func callOn(ctx context.Context, sidecar string) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, sidecar+"/v1/chat/completions", strings.NewReader(`{"model":"default","max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // the metrics say what became of it
			_ = resp.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(100+rand.IntN(200)) * time.Millisecond):
		}
	}
}

// alertMetrics are the metrics that the rules ask for.
func alertMetrics(t *testing.T) map[string]bool {
	t.Helper()
	rules, err := os.ReadFile("../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, name := range regexp.MustCompile(`weir_[a-z_]+`).FindAllString(string(rules), -1) {
		all[name] = true
	}
	return all
}

// look adds the n-th sample of what an address shows.
func look(series map[string][]string, watched map[string]bool, n int, url string) {
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		return // as Prometheus finds it
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		bare, _, _ := strings.Cut(name, "{")
		if !ok || !watched[bare] {
			continue
		}
		for len(series[name]) < n {
			series[name] = append(series[name], "_")
		}
		series[name] = append(series[name], value)
	}
}

// write writes the series in promtool's words. Samples that are alike stand as
// one.
func (w *ward) write(series map[string][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - name: %s\n    interval: 15s\n    input_series:\n", w.name)
	for _, name := range slices.Sorted(maps.Keys(series)) {
		values := series[name]
		for len(values) < recordTimes {
			values = append(values, "stale")
		}
		if bucket := strings.Contains(name, "_bucket{"); bucket && w.clients < 10 && !strings.Contains(name, "Inf") {
			continue // where nothing waits, the sum says enough
		}
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", name, shorten(values))
	}
	fmt.Fprintf(&b, "    promql_expr_test:\n      - expr: group by (alertname) (max_over_time(ALERTS{alertstate=\"firing\"}[1h]))\n        eval_time: %s\n        exp_samples:\n", time.Duration(recordTimes-1)*recordEvery)
	if len(w.fires) == 0 {
		return strings.TrimSuffix(b.String(), "\n") + " []\n"
	}
	for _, alert := range w.fires {
		fmt.Fprintf(&b, "          - {labels: '{alertname=\"%s\"}', value: 1}\n", alert)
	}
	return b.String()
}

func shorten(values []string) string {
	var out []string
	for i := 0; i < len(values); {
		n := i
		for n+1 < len(values) && values[n+1] == values[i] {
			n++
		}
		switch {
		case values[i] == "stale": // it stays so
			out = append(out, values[i])
		case n == i || values[i] == "_":
			out = append(out, values[i])
			n = i
		default:
			out = append(out, values[i]+"x"+strconv.Itoa(n-i))
		}
		i = n + 1
	}
	return strings.Join(out, " ")
}
