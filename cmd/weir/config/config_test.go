package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/agent"
	"weir/cmd/weir/config"
	"weir/controller/notice"
	"weir/events"
	"weir/model"
	"weir/sim/strict"
)

// winter is when the files are read.
func winter() time.Time { return time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC) }

func parse(text string) (*config.File, error) {
	return config.Parse("weir.yaml", strings.NewReader(text), winter())
}

func mustParse(t *testing.T, text string) *config.File {
	t.Helper()
	f, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func contract(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/contract.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestParseReadsEveryKey reads a file that sets everything there is.
func TestParseReadsEveryKey(t *testing.T) {
	got := mustParse(t, contract(t))
	want := &config.File{
		Model: model.Config{
			Fleet: "default",
			Channels: []model.ChannelConfig{
				{Name: "light", Model: "light"},
				{
					Name: "minimax-main", Provider: "minimax", Model: "MiniMax-M2.7", Groups: []string{"acct-a"},
					Limits: model.Limits{
						RequestsPerMinute: 60, TokensPerMinute: 100_000, InputTokensPerMinute: 90_000,
						OutputTokensPerMinute: 20_000, ImagesPerMinute: 5, RequestsPerDay: 10_000,
						TokensPerDay: 5_000_000, Concurrency: 30, DayReset: 16 * model.Hour,
					},
					ChargeMax: true, Price: model.Price{Input: 300_000, Cached: 30_000, Output: 1_200_000},
					OnLoss: model.OnLossLast, Alone: 2,
				},
				{Name: "spare", Provider: "openai", Model: "spare", Mode: model.ModeObserve, HasMode: true},
			},
			Groups: []model.GroupConfig{{Name: "acct-a", Limits: model.Limits{TokensPerDay: 5_000_000}}},
			Routes: []model.RouteConfig{
				{
					Name: "m2.7", DegradeCore: -1, DegradeOther: 30 * model.Second,
					Tiers: []model.TierConfig{
						{Channels: []model.WeightedChannel{{Channel: "minimax-main", Weight: 100}}},
						{Channels: []model.WeightedChannel{{Channel: "spare", Weight: 100}}},
						{Channels: []model.WeightedChannel{{Channel: "light", Weight: 100}}, Capability: "light"},
						{Rule: "busy, please try later"},
					},
				},
				{
					Name: "openai/gpt-5:latest", DegradeCore: 2 * model.Minute,
					Tiers: []model.TierConfig{
						{Channels: []model.WeightedChannel{{Channel: "minimax-main", Weight: 100}, {Channel: "spare", Weight: 25}}},
						{Channels: []model.WeightedChannel{{Channel: "light", Weight: 100}}},
					},
				},
			},
			Tenants: []model.TenantConfig{{
				Name: "content", Priority: model.PriorityBatch, Share: 2,
				TokensPerDaySoft: 400_000, TokensPerDayHard: 500_000, CostPerDaySoft: 5_000_000, CostPerDayHard: 8_500_000,
				RequestsPerDaySoft: 800, RequestsPerDayHard: 1000, DayReset: 16 * model.Hour,
			}},
			Retry: model.RetryConfig{
				MaxAttempts: 4, Base: 2 * model.Second, Multiplier: 1_500_000, Max: 40 * model.Second,
				Jitter: 300_000, Budget: 50_000, Total: 100 * model.Second,
			},
			Timeouts: model.TimeoutConfig{Connect: 3 * model.Second, FirstToken: 20 * model.Second, Total: 90 * model.Second},
		},
		NATS: config.NATS{Embedded: true, Listen: "127.0.0.1:4222", Store: "./weir-data/nats", Credentials: "./weir-data/credentials", TLS: config.TLS{CertFile: "c.pem", KeyFile: "k.pem", CAFile: "ca.pem"}},
		Controller: config.Controller{
			Listen: "127.0.0.1:8080", Store: "./weir-data/state", TokenEnv: "WEIR_TOKEN", TokenFile: "./weir-data/credentials/token", Keep: 500_000, Hosts: []string{"weir.example"},
			Notices: []config.Notice{{URLEnv: "ON_CALL", Shape: notice.Feishu, Only: []notice.Kind{notice.KindBreaker, notice.KindLog}}},
			Page:    "https://weir.example",
		},
		Agent: config.Agent{
			Listen: "127.0.0.1:8787", Queue: 1000, ClientKeys: "./clients.yaml",
			Task: agent.TaskConfig{Retries: -1, Total: 5 * time.Minute, Parallel: 4}, Idempotency: agent.KeepConfig{Bytes: -1, For: time.Hour}, Cache: agent.CacheConfig{KeepConfig: agent.KeepConfig{Bytes: 1_000_000, For: time.Minute}, Ignore: []string{"user", "messages.*.id"}},
			Rules: []string{"provider.yaml"}, Unknown: "./weir-data/unknown.jsonl",
			Budgets:  map[string]agent.BudgetConfig{"m2.7": {Input: 30_000, Margin: 1.5}},
			Semantic: agent.SemanticConfig{Route: "m2.7", Threshold: 0.9, KeepConfig: agent.KeepConfig{Bytes: 2_000_000, For: 2 * time.Minute}},
			Tasks:    config.Tasks{Enabled: true, Tenants: []string{"content"}, Bytes: 50_000_000, Age: 48 * time.Hour},
			Traces:   "http://127.0.0.1:4318",
		},
		Upstreams: map[string]agent.Upstream{
			"minimax-main": {BaseURL: "https://provider.example/v1", KeyEnv: "MINIMAX_KEY"},
			"spare":        {BaseURL: "http://127.0.0.1:9000/v1", KeyFile: "/run/secrets/spare", KeyHeader: "Api-Key", NoStreamUsage: true, Drop: []string{"logit_bias", "seed"}, Refuse: []string{"tools"}},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestSecretsStayOut holds what is published to what may be: neither where a
// key stands nor where it is sent.
func TestSecretsStayOut(t *testing.T) {
	f := mustParse(t, contract(t))
	published := string(events.Encode(nil, &f.Model))
	for _, secret := range []string{"MINIMAX_KEY", "/run/secrets", "provider.example", "WEIR_TOKEN", "clients.yaml"} {
		if strings.Contains(published, secret) {
			t.Errorf("%q is published", secret)
		}
	}
}

func TestDefaults(t *testing.T) {
	got := mustParse(t, "channels: [{name: a}]\nroutes: [{name: r, tiers: [[a]]}]\n")
	want := config.Default()
	want.Model.Channels = []model.ChannelConfig{{Name: "a", Model: "a"}}
	want.Model.Routes = []model.RouteConfig{{
		Name: "r", DegradeCore: -1, DegradeOther: 30 * model.Second,
		Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: "a", Weight: 100}}}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got.NATS.Address() != "nats://127.0.0.1:4222" {
		t.Errorf("agents connect to %s", got.NATS.Address())
	}
}

func TestOwnServer(t *testing.T) {
	f := mustParse(t, "nats: {url: 'nats://a:4222, tls://b:4222', creds_file: ./weir.creds, durability: always}")
	if n := f.NATS; n.Embedded || n.Address() != "nats://a:4222, tls://b:4222" || n.CredsFile != "./weir.creds" || !n.SyncAlways {
		t.Errorf("got %+v", n)
	}
}

// TestResetFollowsItsZone reads a reset in a zone with summer time.
func TestResetFollowsItsZone(t *testing.T) {
	const text = "channels: [{name: a, limits: {tokens_per_day: 1, reset: '00:30 America/Los_Angeles'}}]"
	for at, want := range map[time.Time]model.Nanos{
		winter():                  8*model.Hour + 30*model.Minute,
		winter().AddDate(0, 6, 0): 7*model.Hour + 30*model.Minute,
	} {
		f, err := config.Parse("f", strings.NewReader(text), at)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Model.Channels[0].Limits.DayReset; got != want {
			t.Errorf("at %s the day resets %v after midnight UTC, want %v", at, got, want)
		}
	}
}

// TestFaults reads files with one or more faults each and compares every
// message, with its place.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fault files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			switch name := filepath.Base(file); {
			case strings.HasPrefix(name, "keys"):
				_, err = config.ParseKeys("f", strings.NewReader(string(text)))
			case strings.HasPrefix(name, "params"):
				_, err = config.ParseParams("f", strings.NewReader(string(text)))
			default:
				_, err = config.Parse("f", strings.NewReader(string(text)), winter())
			}
			if _, ok := errors.AsType[*strict.ParseError](err); !ok {
				t.Fatalf("got %v, want a ParseError", err)
			}
			var want []string
			for line := range strings.Lines(string(text)) {
				if w, ok := strings.CutPrefix(line, "#! "); ok {
					want = append(want, strings.TrimSpace(w))
				}
			}
			if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("a message shows a secret")
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(contract(f))
	f.Add("channels: [{name: a, api_key: b}]")
	f.Add("nats: {url: 'nats://u:p@h'}\nroutes: [{name: a, tiers: [[x], {}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parse(text)
		var faults *strict.ParseError
		if (file == nil) != (err != nil) || err != nil && !errors.As(err, &faults) {
			t.Fatalf("file %v, error %v", file != nil, err)
		}
		if file == nil {
			return
		}
		fact, err := events.Decode(events.Encode(nil, &file.Model))
		if err != nil {
			t.Fatalf("what was read cannot be published: %v", err)
		}
		if d := cmp.Diff(model.Fact(&file.Model), fact, equate()); d != "" {
			t.Fatalf("published differently:\n%s", d)
		}
	})
}

// equate takes a nil list for an empty one.
func equate() cmp.Option {
	return cmp.FilterValues(func(x, y []string) bool { return len(x) == 0 && len(y) == 0 }, cmp.Ignore())
}

// FuzzParams reads files of parameters: what is taken is within every
// parameter's bounds.
func FuzzParams(f *testing.F) {
	f.Add("name: calmer\nparams: {plateau: 12s, cut_share: 800000}\n")
	f.Add("params: {plateau: 99999999h, nosuch: 1}")
	f.Add(`{"seq":3,"name":"a","by":"b","why":"c","hash":"d","params":{"plateau":8000000000},"watched":{"at":[1]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := config.ParseParams("f", strings.NewReader(text))
		var faults *strict.ParseError
		if (p == nil) != (err != nil) || err != nil && !errors.As(err, &faults) {
			t.Fatalf("parameters %v, error %v", p, err)
		}
		if p == nil {
			return
		}
		got, err := p.Apply(model.DefaultParams())
		if err != nil {
			t.Fatalf("what was read cannot be applied: %v", err)
		}
		for _, spec := range model.ParamSpecs() {
			if v := spec.Get(&got); v < spec.Min || v > spec.Max {
				t.Errorf("%s is %d", spec.Name, v)
			}
		}
	})
}

// FuzzKeys reads files of clients: one that is taken has a client, and no
// message shows what stands where a hash belongs.
func FuzzKeys(f *testing.F) {
	f.Add("clients:\n- {name: a, sha256: " + strings.Repeat("0f", 32) + ", tenant: t, priority: batch}\n")
	f.Add("clients: [{name: a, sha256: hunter2}, {name: a, key: hunter2}]")
	f.Add("clients: []")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := config.ParseKeys("f", strings.NewReader(text))
		var faults *strict.ParseError
		if (len(keys) == 0) != (err != nil) || err != nil && !errors.As(err, &faults) {
			t.Fatalf("%d keys, error %v", len(keys), err)
		}
	})
}
