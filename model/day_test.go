package model

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestDayClock lets the log's clock jump, for less than a day at a time, while
// the leader's is true. No day of the true clock may begin twice, none early.
func TestDayClock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := NewFleet()
		var fx Effects
		var seq uint64
		now, offset, jumps := Nanos(1_700_000_000)*Second, Nanos(0), Nanos(0)
		since := now // the jump
		apply := func(fact Fact) {
			seq++
			fx.Reset()
			f.Apply(Record{Seq: seq, Time: now + offset, Fact: fact}, &fx)
		}
		reset := Nanos(rapid.Int64Range(0, 23).Draw(rt, "reset")) * Hour
		config := func() *Config {
			return &Config{Channels: []ChannelConfig{{Name: "m", Limits: Limits{RequestsPerDay: 5, DayReset: reset}}}}
		}
		apply(&Lead{Term: 1})
		apply(config())
		d := f.day("channel/m")
		seen, began := d.ends, int64(0)
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			step := Nanos(rapid.Int64Range(1, int64(3*Hour)).Draw(rt, "step"))
			switch rapid.SampledFrom([]string{"tick", "tick", "report", "jump", "lead", "config", "store"}).Draw(rt, "what") {
			case "tick":
				now += step
				apply(&Tick{Term: f.Term(), Elapsed: step})
			case "report":
				now += min(step, 5*Second)
				apply(&Attempts{Source: Source{Agent: "a", Boot: 1, Seq: seq, Span: 1}})
			case "jump":
				offset, jumps, since = Nanos(rapid.Int64Range(-int64(50*Hour), int64(50*Hour)).Draw(rt, "offset")), jumps+1, now
				apply(&Tick{Term: f.Term(), Elapsed: 1})
			case "lead":
				offset = 0
				apply(&Lead{Term: f.Term() + 1})
			case "config":
				apply(config())
			case "store":
				again, err := DecodeFleet(f.AppendBinary(nil))
				if err != nil {
					rt.Fatal(err)
				}
				f = again
				d = f.day("channel/m")
			}
			if now-since > 20*Hour {
				offset = 0 // somebody sees it
			}
			if d.ends == seen {
				continue
			}
			if early := d.began - now; early > 0 && early > 11*Second*jumps+Second {
				rt.Fatalf("the day that begins at %s began %s early", instant(d.began), early)
			}
			of := (d.began - reset) / wholeDay
			if int64(of) <= began {
				rt.Fatalf("day %d began after day %d", of, began)
			}
			seen, began = d.ends, int64(of)
		}
	})
}

// TestDayLimits runs gates against the fold: neither a channel's day nor a
// tenant's may be passed by more than what was in flight when it was used up,
// and what was started in the time of a message.
func TestDayLimits(t *testing.T) {
	for seed := range uint64(gateSeeds) {
		w := newGateWorld(t, seed, 4)
		w.calm, w.whole, w.limit = true, true, 12
		w.tenants = []string{"greedy", "modest"}
		cfg, _ := w.fleet.Config()
		next := *cfg.clone()
		next.Channels[0].Limits.RequestsPerDay = 150
		next.Channels[0].Price = Price{Input: 1_000_000, Output: 2_000_000}
		next.Tenants = []TenantConfig{{Name: "greedy", Share: 1, TokensPerDaySoft: 9000, TokensPerDayHard: 12_000}, {Name: "modest", Share: 1}}
		use := map[string]int64{}
		flying, most := map[string]int64{}, map[string]int64{}
		w.calls = func(channel, tenant string, begins bool, o *Outcome) {
			if begins {
				for _, who := range []string{channel, tenant} {
					flying[who]++
					most[who] = max(most[who], flying[who])
				}
				return
			}
			flying[channel]--
			flying[tenant]--
			if o.Class == ClassOK {
				use[channel]++
				use[tenant] += int64(o.In + o.Out)
			}
		}
		w.apply(&next)
		for _, a := range w.agents {
			a.g.SetConfig(w.now, w.seq, &next)
		}
		w.run(60 * Second)
		if n := use["a"]; n < 150 || n > 150+most["a"] {
			t.Errorf("seed %d: %d calls of 150 a day, %d were in flight at most", seed, n, most["a"])
		}
		if n := use["greedy"]; n < 12_000 || n > 12_000+most["greedy"]*350 {
			t.Errorf("seed %d: %d tokens of 12000 a day, %d calls were in flight at most", seed, n, most["greedy"])
		}
		if use["modest"] <= use["greedy"] {
			t.Errorf("seed %d: the tenant without a ceiling got %d tokens, the other %d", seed, use["modest"], use["greedy"])
		}
		v := w.fleet.View()
		want := map[string]string{"channel/a": "spent", "channel/b": "free", "group/g": "free", "tenant/greedy": "spent", "tenant/modest": "free"}
		for i := range v.Days {
			if d := &v.Days[i]; d.Stage != want[d.Name] {
				t.Errorf("seed %d: %s is %s (%d used), want %s", seed, d.Name, d.Stage, d.Requests.Used, want[d.Name])
			}
		}
		if c := v.Days[3]; c.Cost.Used == 0 || c.Reason == "" {
			t.Errorf("seed %d: cost and reason of %+v", seed, c)
		}
	}
}

// TestDayOfLateGroup gives a group that is configured late what its channels
// used, and a price to what is counted afterwards.
func TestDayOfLateGroup(t *testing.T) {
	s := newScript(t)
	s.fold(parseConfig(t, "channel m rpd=10\nchannel n\n"))
	s.play("1s a ok*4 | n ok*2\n")
	s.fold(parseConfig(t, "channel m groups=g price=1000000\nchannel n groups=g\ngroup g rpd=7\n"))
	s.play("2s a ok(in=250000,out=0)\n")
	v := s.f.View()
	got := fmt.Sprintf("%d %d %d %s", v.Days[0].Requests.Used, v.Days[0].Cost.Used, v.Days[2].Requests.Used, v.Days[2].Stage)
	if want := "5 250000 7 spent"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDaysAreBounded configures ever other tenants: the days of those that are
// gone are kept up to a bound, those that are configured all.
func TestDaysAreBounded(t *testing.T) {
	f := NewFleet()
	var fx Effects
	const tenants = maxDays / 2
	for round := range 3 {
		c := &Config{Fleet: "x", Tenants: make([]TenantConfig, tenants)}
		for i := range c.Tenants {
			c.Tenants[i].Name = fmt.Sprintf("%d-%06d", round, i)
		}
		fx.Reset()
		f.Apply(Record{Seq: uint64(round) + 1, Time: Nanos(round) * Second, Fact: c}, &fx)
		known := 0
		for _, d := range f.days {
			if d.known {
				known++
			}
		}
		if len(f.days) > maxDays || known != tenants {
			t.Fatalf("%d days are kept, %d of them configured, after %d configurations", len(f.days), known, round+1)
		}
	}
}
