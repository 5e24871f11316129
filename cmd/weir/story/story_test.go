package story_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/cmd/weir/story"
	"weir/model"
)

// teller makes a log whose causes are known.
type teller struct {
	t      *testing.T
	s      *story.Story
	seq    uint64
	report uint64
	epoch  uint64 // the channel main's
	now    model.Nanos
}

const begin = model.Nanos(1_800_000_000) * model.Second

func newTeller(t *testing.T, o story.Options) *teller {
	x := &teller{t: t, s: story.New(model.NewFleet(), o), now: begin}
	x.fold(&model.Config{
		Fleet:    "test",
		Channels: []model.ChannelConfig{{Name: "main", Groups: []string{"acct"}}, {Name: "spare"}},
		Groups:   []model.GroupConfig{{Name: "acct", Limits: model.Limits{RequestsPerMinute: 600}}},
		Routes: []model.RouteConfig{{Name: "r", Tiers: []model.TierConfig{
			{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}}, {Channels: []model.WeightedChannel{{Channel: "spare", Weight: 1}}},
		}}},
	})
	x.fold(&model.Lead{Term: 1, Controller: "c", Laws: model.LawVersion})
	return x
}

func (x *teller) fold(f model.Fact) uint64 {
	x.seq++
	x.s.Fold(model.Record{Seq: x.seq, Time: x.now, Fact: f})
	for _, c := range x.s.Fleet().View().Channels {
		if c.Name == "main" {
			x.epoch = c.Epoch
		}
	}
	return x.seq
}

// calls reports attempts of main and how many are in flight.
func (x *teller) calls(inflight uint32, attempts ...model.Attempt) uint64 {
	x.report++
	for i := range attempts {
		a := &attempts[i]
		a.Route, a.Epoch, a.Try = "r", x.epoch, 1
		a.Took = max(a.Took, 500*model.Millisecond)
		if a.RetryAfter == 0 {
			a.RetryAfter = -1
		}
	}
	return x.fold(&model.Attempts{
		Source:   model.Source{Agent: "a", Boot: 1, Seq: x.report, Span: 1},
		Channels: []model.ChannelReport{{Channel: "main", InFlight: inflight, Accepted: inflight}, {Channel: "spare"}},
		Attempts: attempts,
	})
}

func many(n int, a model.Attempt) []model.Attempt { return slices.Repeat([]model.Attempt{a}, n) }

// wait lets time pass in steps that the log's clock allows.
func (x *teller) wait(d model.Nanos) {
	for ; d > 0; d -= model.Second {
		x.now += min(d, model.Second)
		x.fold(&model.Tick{Term: 1, Elapsed: min(d, model.Second)})
	}
}

func (x *teller) part(p story.Part) story.Standing {
	x.t.Helper()
	w, ok := x.s.Why("main")
	if !ok {
		x.t.Fatal("there is no channel main")
	}
	for _, st := range w.Parts {
		if st.Part == p {
			return st
		}
	}
	x.t.Fatalf("nothing is said of %s", p)
	return story.Standing{}
}

func (x *teller) want(p story.Part, seq uint64, stands string, because ...string) {
	x.t.Helper()
	st := x.part(p)
	if st.Seq != seq || !strings.Contains(st.Stands, stands) {
		x.t.Errorf("%s stands at %q since record %d, want %q since %d", p, st.Stands, st.Seq, stands, seq)
	}
	for _, text := range because {
		if !strings.Contains(st.Because, text) {
			x.t.Errorf("%s: because %q does not say %q", p, st.Because, text)
		}
	}
}

// TestWhy builds a log whose causes are known and asks after each.
func TestWhy(t *testing.T) {
	x := newTeller(t, story.Options{Channel: "main", Keep: 100})
	x.want(story.PartWindow, 0, "slots, epoch 0", "no cut so far")
	x.want(story.PartBreaker, 0, "closed", "nothing opened it")
	x.want(story.PartBudget, 1, "group/acct: requests ", "configured by record 1,")

	// A refusal with eight others in flight cuts the window to those.
	x.now += model.Second
	x.calls(9, many(3, model.Attempt{Class: model.ClassOK, Status: 200, In: 100, Out: 50})...)
	cut := x.calls(8, model.Attempt{Class: model.ClassOverloaded, Status: 200, Code: "2064"})
	x.want(story.PartWindow, cut, "slots, epoch 1", "8 others in flight", "code 2064", "report 2 of agent a with 1 overloaded (2064)", "no call ended since")
	w, _ := x.s.Why("main")
	if e := w.Events[0]; e.Rule != "window.cut" || e.Before <= e.After || int64(w.State.Window) != e.After {
		t.Errorf("newest event %+v, window %d", e, w.State.Window)
	}
	x.want(story.PartWeight, cut, "0.70", "overloaded under epoch 0")
	x.want(story.PartBudget, 1, "", "4 calls ended with 450 tokens")

	// What was admitted before the cut changes nothing, and that is said.
	x.epoch = 0
	x.calls(7, model.Attempt{Class: model.ClassOverloaded, Status: 200, Code: "2064"})
	x.want(story.PartWindow, cut, "slots, epoch 1", "since then 1 overloaded (2064)")

	// A wait that the provider names is a hold.
	hold := x.calls(7, model.Attempt{Class: model.ClassRateLimited, Status: 429, RetryAfter: 5 * model.Second})
	x.want(story.PartWait, hold, "nothing may start for 5s", "held: ", "1 rate_limited (status 429)")
	x.wait(6 * model.Second)
	x.want(story.PartWait, hold, "calls may start", "that is over")

	// An operator.
	paused := x.fold(&model.Command{Command: model.CommandPause, Channel: "main", For: model.Minute, By: "ann", Why: "maintenance"})
	x.want(story.PartWait, paused, "nothing may start for 1m0s", "paused", "the order pause of ann for 1m0s (maintenance)")
	x.fold(&model.Command{Command: model.CommandResume, Channel: "main", By: "ann"})
	weight := x.fold(&model.Command{Command: model.CommandSetWeight, Channel: "main", Value: 250_000, By: "ann"})
	x.want(story.PartWeight, weight, "0.25", "weight set to 250000 ppm, by ann")
	mode := x.fold(&model.Command{Command: model.CommandSetMode, Value: int64(model.ModeObserve), By: "bob"})
	x.want(story.PartMode, mode, "observe", "the fleet's mode is observe, by bob")

	// A spent quota opens the breaker; calls go to the spare.
	open := x.calls(0, model.Attempt{Class: model.ClassQuotaExhausted, Status: 429, Code: "insufficient_quota", RetryAfter: 30 * model.Second})
	x.want(story.PartBreaker, open, "open", "quota exhausted (code insufficient_quota); open for 30s")
	x.want(story.PartWindow, open, "1.0 slots", "breaker opened")
	lesser := x.calls(0, model.Attempt{Channel: 1, Tier: 1, Degraded: true, Class: model.ClassOK, Status: 200})
	x.calls(0, model.Attempt{Channel: 1, Tier: 1, Degraded: true, Class: model.ClassOK, Status: 200})
	w, _ = x.s.Why("main")
	if e := w.Events[0]; e.Rule != story.RuleDegraded || e.Seq != lesser || !strings.Contains(e.Text, "route r degraded to tier 1, channel spare: main has its breaker open") || !strings.Contains(e.Text, "quota exhausted") {
		t.Errorf("newest event %+v, want the degradation", e)
	}

	// Half-open, a probe that succeeds, closed; the route is back.
	x.wait(31 * model.Second)
	half := x.part(story.PartBreaker)
	if half.Stands != "half_open" || !strings.Contains(half.Because, "the wait is over") {
		t.Errorf("breaker %+v, want half open", half)
	}
	probe := x.fold(&model.Attempts{
		Source:   model.Source{Agent: "a", Boot: 1, Seq: x.report + 1, Span: 1},
		Channels: []model.ChannelReport{{Channel: "main", Queued: 2}},
	})
	x.report++
	x.want(story.PartBreaker, probe, "half_open", "probe leased to a")
	closed := x.calls(0, model.Attempt{Class: model.ClassOK, Status: 200, Probe: probe})
	x.want(story.PartBreaker, closed, "closed", "a probe succeeded; the window ramps up from 1")
	x.want(story.PartWindow, closed, "1.0 slots", "breaker closed")

	w, _ = x.s.Why("main")
	var rules []string
	for _, e := range w.Events {
		rules = append(rules, e.Rule)
		if e.Text == "" || e.Cause == "" || e.Channel == "spare" {
			t.Errorf("event %+v", e)
		}
	}
	slices.Reverse(rules)
	want := []string{
		"config", "term", "weight.decay", "window.cut", "budget.hold", "command", "command", "command", "command",
		"breaker.open", "route.degraded", "breaker.half_open", "route.degraded", "breaker.probe", "breaker.close",
	}
	if !slices.Equal(rules, want) {
		t.Errorf("events\n%v, want\n%v", rules, want)
	}
}

// TestCauses gives each kind of trouble to a fleet of its own.
func TestCauses(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*teller) uint64
		part story.Part
		want string
	}{
		{"credential", func(x *teller) uint64 {
			return x.calls(0, model.Attempt{Class: model.ClassAuth, Status: 401, Code: "invalid_api_key"})
		}, story.PartBreaker, "the provider refused the credential (code invalid_api_key)"},
		{"connections", func(x *teller) uint64 {
			return x.calls(0, many(40, model.Attempt{Class: model.ClassTransport})...)
		}, story.PartBreaker, "20 of 20 sent in the last 10s failed"},
		{"latency", func(x *teller) uint64 {
			for range 40 {
				x.now += 200 * model.Millisecond
				x.calls(10, many(5, model.Attempt{Class: model.ClassOK, Status: 200, Took: model.Second, Out: 100, In: 100, UsageKnown: true})...)
			}
			for range 200 {
				x.now += 200 * model.Millisecond
				seq := x.calls(60, many(5, model.Attempt{Class: model.ClassOK, Status: 200, Took: 4 * model.Second, Out: 100, In: 100, UsageKnown: true})...)
				if x.epoch > 0 {
					return seq
				}
			}
			return 0
		}, story.PartWindow, "window cut for latency"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newTeller(t, story.Options{Channel: "main", Keep: 100})
			seq := tt.do(x)
			x.want(tt.part, seq, "", tt.want)
		})
	}
}

// TestBounded gives a story more than it keeps, with names from outside.
func TestBounded(t *testing.T) {
	x := newTeller(t, story.Options{Keep: 5})
	for i := range 50 {
		x.fold(&model.Command{Command: model.CommandSetLimit, Channel: "main", Value: int64(i + 1), Why: "a\x1b[2Jb\nc\u2028d\u0085"})
	}
	events := x.s.Events()
	if len(events) != 5 || x.s.Omitted() != 47 || events[4].Seq != x.seq || events[0].Seq != x.seq-4 {
		t.Fatalf("%d events, %d omitted: %+v", len(events), x.s.Omitted(), events)
	}
	for _, text := range []string{events[0].Text, events[0].Cause, events[0].Reason} {
		if strings.ContainsAny(text, "\x1b\n\u2028\u0085") {
			t.Errorf("%q is not safe to print", text)
		}
	}
	x.now += model.Second
	for i := range 100 {
		x.report++
		x.fold(&model.Attempts{
			Source:   model.Source{Agent: "a", Boot: 1, Seq: x.report, Span: 1},
			Channels: []model.ChannelReport{{Channel: fmt.Sprint("made-up-", i)}},
			Attempts: []model.Attempt{{Class: model.ClassOverloaded, Route: "made up", Tier: 9, Degraded: true, Channel: uint16(i % 2)}},
		})
	}
	x.fold(&model.Config{Fleet: "test", Channels: []model.ChannelConfig{{Name: "other"}}})
	if _, ok := x.s.Why("main"); ok {
		t.Error("a dropped channel is explained")
	}
	if w, ok := x.s.Why("other"); !ok || w.Parts[0].Seq != 0 {
		t.Errorf("%+v, %v", w, ok)
	}
}
