package model

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// extremes are the numbers that break arithmetic.
var extremes = []int64{0, 1, -1, 2, 7, 1000, math.MaxInt32, math.MaxUint32, 1 << 40, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, 1 << 62}

func drawAny(t *rapid.T) int64 {
	if rapid.Bool().Draw(t, "small") {
		return rapid.Int64Range(0, 20).Draw(t, "n")
	}
	return rapid.SampledFrom(extremes).Draw(t, "extreme")
}

func drawSource(t *rapid.T) Source {
	return Source{
		Agent: rapid.SampledFrom([]string{"a", "b", "", strings.Repeat("x", 65), "a/b"}).Draw(t, "agent"),
		Boot:  uint64(drawAny(t)), Seq: uint64(drawAny(t)), Span: uint64(drawAny(t)), Base: uint64(drawAny(t)),
	}
}

var hostileChannels = []string{"m", "n", "unknown", ""}

func drawPools(t *rapid.T) []PoolReport {
	var pools []PoolReport
	for range rapid.IntRange(0, 2).Draw(t, "pools") {
		pools = append(pools, PoolReport{
			Pool: rapid.SampledFrom([]string{"group/g", "channel/m", "x"}).Draw(t, "pool"), UsedRequests: drawAny(t), UsedTokens: Tokens(drawAny(t)),
			WaitingRequests: drawAny(t), WaitingTokens: Tokens(drawAny(t)), Applied: uint64(drawAny(t)),
		})
	}
	return pools
}

func drawAttempt(t *rapid.T) Attempt {
	return Attempt{
		Channel: uint16(rapid.IntRange(0, 3).Draw(t, "channel")), Class: Class(rapid.IntRange(0, NumClasses+1).Draw(t, "class")),
		Age: Nanos(drawAny(t)), Took: Nanos(drawAny(t)), FirstToken: Nanos(drawAny(t)), Scope: Scope(rapid.IntRange(0, 4).Draw(t, "scope")),
		In: Tokens(drawAny(t)), Cached: Tokens(drawAny(t)), Out: Tokens(drawAny(t)), UsageKnown: rapid.Bool().Draw(t, "known"),
		RetryAfter: Nanos(drawAny(t)), Epoch: uint64(drawAny(t)), Probe: uint64(drawAny(t)),
		Hints: []LimitHint{{Dimension: Dimension(rapid.IntRange(0, 9).Draw(t, "dimension")), Remaining: drawAny(t), Reset: Nanos(drawAny(t))}},
	}
}

func drawAttempts(t *rapid.T) *Attempts {
	a := &Attempts{Source: drawSource(t), Mode: Mode(rapid.IntRange(0, 3).Draw(t, "mode")), Leaving: rapid.IntRange(0, 9).Draw(t, "leaving") == 0, Pools: drawPools(t)}
	for range rapid.IntRange(0, 3).Draw(t, "channels") {
		a.Channels = append(a.Channels, ChannelReport{
			Channel: rapid.SampledFrom(hostileChannels).Draw(t, "channel"), InFlight: uint32(drawAny(t)), Held: uint32(drawAny(t)), Accepted: uint32(drawAny(t)),
			Queued: uint32(drawAny(t)), Urgent: uint32(drawAny(t)), WaitingTokens: Tokens(drawAny(t)), Applied: uint64(drawAny(t)), WouldRefuse: uint64(drawAny(t)),
		})
	}
	for range rapid.IntRange(0, 6).Draw(t, "attempts") {
		a.Attempts = append(a.Attempts, drawAttempt(t))
	}
	return a
}

func drawFact(t *rapid.T) Fact {
	switch rapid.IntRange(0, 12).Draw(t, "fact") {
	default:
		return drawAttempts(t)
	case 6:
		s := &Summary{Source: drawSource(t), Pools: drawPools(t)}
		for range rapid.IntRange(0, 3).Draw(t, "counts") {
			s.Counts = append(s.Counts, SummaryCount{
				Channel: rapid.SampledFrom(hostileChannels).Draw(t, "channel"), Class: Class(rapid.IntRange(0, NumClasses+1).Draw(t, "class")),
				Attempts: uint64(drawAny(t)), In: Tokens(drawAny(t)), Out: Tokens(drawAny(t)),
			})
		}
		return s
	case 7:
		return drawConfig(t)
	case 8:
		p := &ParamSet{Name: "p", Params: drawParams(t)}
		if rapid.Bool().Draw(t, "guarded") {
			p.Canary = rapid.SampledFrom(append([]string{""}, hostileChannels...)).Draw(t, "canary")
			p.Guard = Guard{
				For:     rapid.SampledFrom([]Nanos{GuardLeast, Minute, GuardMost, Nanos(drawAny(t))}).Draw(t, "watch"),
				Goodput: PPM(rapid.Int64Range(-1_100_000, 1_100_000).Draw(t, "goodput")), Waste: PPM(rapid.Int64Range(-1_100_000, 1_100_000).Draw(t, "waste")),
			}
		}
		return p
	case 9, 10:
		return &Command{
			Command: CommandKind(rapid.IntRange(0, 9).Draw(t, "command")), Channel: rapid.SampledFrom(hostileChannels).Draw(t, "channel"),
			Agent: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "agent"), Value: drawAny(t), For: Nanos(drawAny(t)),
		}
	case 11:
		return &Tick{Term: uint64(drawAny(t)), Elapsed: Nanos(drawAny(t))}
	case 12:
		return rapid.SampledFrom([]Fact{nil, &Unknown{K: 200}, &Rebase{Term: math.MaxUint64, Snapshot: []byte("no")}, &Lead{Term: 1, Laws: 7}, &Lead{}}).Draw(t, "other")
	}
}

func drawConfig(t *rapid.T) *Config {
	limits := func() Limits {
		return Limits{RequestsPerMinute: drawAny(t), TokensPerMinute: Tokens(drawAny(t)), Concurrency: drawAny(t)}
	}
	c := &Config{Timeouts: TimeoutConfig{Total: Nanos(drawAny(t))}, Groups: []GroupConfig{{Name: "g", Limits: limits()}}}
	for _, name := range hostileChannels {
		if rapid.Bool().Draw(t, "has "+name) {
			c.Channels = append(c.Channels, ChannelConfig{Name: name, Groups: []string{"g"}, Limits: limits(), OnLoss: OnLoss(rapid.IntRange(0, 4).Draw(t, "loss"))})
		}
	}
	return c
}

// TestFleetTakesAnything folds nonsense: nothing panics, time never goes back,
// and the state can be read again.
func TestFleetTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := NewFleet()
		var fx Effects
		at := origin
		if rapid.IntRange(0, 3).Draw(t, "configured") > 0 {
			f.configure(parseConfig(nil, "channel m groups=g rpm=60 tpm=9000\nchannel n groups=g conc=9\ngroup g rpm=600"))
		}
		for seq := range uint64(rapid.IntRange(1, 60).Draw(t, "records")) {
			switch rapid.IntRange(0, 5).Draw(t, "clock") {
			case 0:
				at = Nanos(drawAny(t))
			default:
				at += min(Nanos(rapid.Int64Range(0, int64(20*Second)).Draw(t, "span")), math.MaxInt64-max(at, 0))
			}
			before := f.Now()
			fx.Reset()
			f.Apply(Record{Seq: seq + 1, Time: at, Fact: drawFact(t)}, &fx)
			if f.Now() < before && seq > 0 {
				t.Fatalf("time went from %s to %s", before, f.Now())
			}
			if wake := f.NextWake(); wake < f.Now() || wake > f.Now()+heartbeat {
				t.Fatalf("at %s the next record is wanted at %s", f.Now(), wake)
			}
			if err := f.check(); err != nil {
				t.Fatalf("%v\n%s", err, f.Describe())
			}
			f.LimitSet(nil)
			f.View()
			for _, m := range f.members {
				if l := f.Lease(m.agent); l != nil && l.Duration <= 0 {
					t.Fatalf("a lease of %s", l.Duration)
				}
			}
		}
		b := f.AppendBinary(nil)
		again, err := DecodeFleet(b)
		if err != nil || !bytes.Equal(again.AppendBinary(nil), b) {
			t.Fatalf("%v\n%s", err, f.Describe())
		}
	})
}

// reports draws plausible reports of two agents.
func drawReports(t *rapid.T) []*Attempts {
	var reports []*Attempts
	base := map[string]uint64{}
	seq := map[string]uint64{}
	for range rapid.IntRange(1, 40).Draw(t, "reports") {
		agent := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent")
		seq[agent]++
		r := &Attempts{
			Source:   Source{Agent: agent, Boot: 1, Seq: seq[agent], Span: 1, Base: base[agent]},
			Channels: []ChannelReport{{Channel: "m", InFlight: uint32(rapid.IntRange(0, 9).Draw(t, "in")), Queued: uint32(rapid.IntRange(0, 9).Draw(t, "queued"))}},
		}
		for range rapid.IntRange(0, 8).Draw(t, "attempts") {
			r.Attempts = append(r.Attempts, Attempt{
				Class: Class(rapid.IntRange(1, NumClasses-1).Draw(t, "class")), Took: Nanos(rapid.Int64Range(0, int64(9*Second)).Draw(t, "took")),
				Epoch: uint64(rapid.IntRange(0, 3).Draw(t, "epoch")), In: 1000, Out: 100, UsageKnown: true, RetryAfter: -1,
			})
		}
		base[agent] += uint64(len(r.Attempts))
		reports = append(reports, r)
	}
	return reports
}

func foldReports(reports []*Attempts) *Fleet {
	f := NewFleet()
	var fx Effects
	f.Apply(Record{Seq: 1, Time: origin, Fact: &Config{Channels: []ChannelConfig{{Name: "m"}}}}, &fx)
	for i, r := range reports {
		f.Apply(Record{Seq: uint64(i) + 2, Time: origin + Nanos(i)*200*Millisecond, Fact: r}, &fx)
	}
	return f
}

// TestCallersMistakesHurtNobody is invariant 6: a log with the mistakes and
// cancellations of callers among it leaves window, weight, breaker and latency
// as the log without them does.
func TestCallersMistakesHurtNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reports := drawReports(t)
		var clean []*Attempts
		base := map[string]uint64{}
		for _, r := range reports {
			c := *r
			c.Base = base[r.Agent]
			c.Attempts = slices.DeleteFunc(slices.Clone(r.Attempts), func(a Attempt) bool { return a.Class == ClassInvalid || a.Class == ClassCanceled })
			base[r.Agent] += uint64(len(c.Attempts))
			clean = append(clean, &c)
		}
		with, without := foldReports(reports).channel("m"), foldReports(clean).channel("m")
		if with.window != without.window || with.weight != without.weight || with.breaker != without.breaker {
			t.Fatalf("with callers' mistakes\n%+v %+v %+v\nwithout\n%+v %+v %+v", with.window, with.weight, with.breaker, without.window, without.weight, without.breaker)
		}
		if fmt.Sprint(with.latency) != fmt.Sprint(without.latency) {
			t.Fatalf("with callers' mistakes %+v, without %+v", with.latency, without.latency)
		}
	})
}

// TestStaleNewsChangesNothing is invariant 8: what is older than what is known
// leaves channels and pools as they are.
func TestStaleNewsChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reports := drawReports(t)
		f := foldReports(reports)
		seq := f.Seq() + 1
		now := f.LastTime()
		var fx Effects
		f.Apply(Record{Seq: seq, Time: now, Fact: &Lead{Term: 5, Controller: "x", Laws: LawVersion}}, &fx)
		f.settleAll(&fx)
		old := *reports[rapid.IntRange(0, len(reports)-1).Draw(t, "which")]
		old.Attempts = append(slices.Clone(old.Attempts), Attempt{Class: ClassAuth})
		young := old
		young.Boot, young.Seq, young.Attempts = 0, 99, old.Attempts
		for _, stale := range []Fact{&old, &young, &Lead{Term: 5, Controller: "y"}, &Lead{Term: 1}, &Tick{Term: 4, Elapsed: Hour}, &Rebase{Term: 4}} {
			before := channelsOf(f)
			seq++
			f.Apply(Record{Seq: seq, Time: now, Fact: stale}, &fx)
			if after := channelsOf(f); !bytes.Equal(before, after) || f.Term() != 5 || f.Controller() != "x" {
				t.Fatalf("%s of before changed\n%x to\n%x", stale.Kind(), before, after)
			}
		}
	})
}

// settleAll does what is due at once, so that the next record does nothing of it.
func (f *Fleet) settleAll(fx *Effects) {
	for range 3 {
		f.now += f.par().PassEvery
		f.settle(fx)
	}
}

func channelsOf(f *Fleet) []byte {
	var b []byte
	for key, value := range f.Parts() {
		if strings.HasPrefix(key, "channel/") || strings.HasPrefix(key, "pool/") {
			b = append(b, value...)
		}
	}
	return b
}

// TestFleetIsBounded is invariant 10: agents, size classes, cuts and
// unacknowledged grants.
func TestFleetIsBounded(t *testing.T) {
	if invariants {
		t.Skip("after each of 65,000 records every agent is looked at")
	}
	f := NewFleet()
	var fx Effects
	seq := uint64(1)
	apply := func(fact Fact) {
		seq++
		fx.Reset()
		f.Apply(Record{Seq: seq, Time: origin + Nanos(seq)*Millisecond, Fact: fact}, &fx)
	}
	apply(&Config{Channels: []ChannelConfig{{Name: "m"}}})
	for i := range MaxAgents + 10 {
		apply(&Summary{Source: Source{Agent: fmt.Sprintf("z%06d", i), Boot: 1, Seq: 1, Span: 1}})
	}
	if got := f.Counters().TooManyAgents; len(f.members) != MaxAgents || got != 10 {
		t.Errorf("%d agents, %d refused", len(f.members), got)
	}
	apply(&Command{Command: CommandForget, Agent: "z000007"})
	report := &Attempts{Source: Source{Agent: "a", Boot: 1}, Channels: []ChannelReport{{Channel: "m", InFlight: 9, Queued: 9}}}
	for i := range 500 {
		report.Seq++
		report.Channels[0].Queued = uint32(i % 7)
		report.Attempts = []Attempt{{Class: ClassOK, UsageKnown: true, In: 1 << (i % 60), Out: 1 << (i % 50), Took: Second, Epoch: math.MaxUint64}, {Class: ClassOverloaded, Epoch: math.MaxUint64}}
		report.Base = uint64(2 * i)
		apply(report)
	}
	c := f.channel("m")
	if f.member("a") == nil || f.member("z000007") != nil {
		t.Error("a forgotten agent does not make room")
	}
	if len(c.cuts) > MaxCuts || len(c.latency.Cells) > maxCells || len(c.leases[0].marks) > maxMarks {
		t.Errorf("%d cuts, %d cells, %d marks", len(c.cuts), len(c.latency.Cells), len(c.leases[0].marks))
	}
}

// FuzzDecodeFleet holds that no bytes make decoding panic, and that what it
// takes is a state: it encodes to what decodes to the same, and folds.
func FuzzDecodeFleet(f *testing.F) {
	f.Add(NewFleet().AppendBinary(nil))
	f.Add(troubled(f).AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if fleet, err := DecodeFleet(b); err == nil {
			holdState(t, fleet)
		}
	})
}

// FuzzFleetParts changes one part of a state that is otherwise sound.
func FuzzFleetParts(f *testing.F) {
	sound := maps.Collect(troubled(f).Parts())
	keys := slices.Sorted(maps.Keys(sound))
	for i, key := range keys {
		f.Add(uint8(i), sound[key])
	}
	f.Fuzz(func(t *testing.T, which uint8, value []byte) {
		parts := maps.Clone(sound)
		parts[keys[int(which)%len(keys)]] = value
		if fleet, err := FleetFromParts(maps.All(parts)); err == nil {
			holdState(t, fleet)
		}
	})
}

// troubled returns a fleet in which much has happened.
func troubled(t testing.TB) *Fleet {
	s := newScript(t)
	s.fold(parseConfig(t, "channel m groups=g\nchannel n\nchannel o\ngroup g rpm=60 tpm=60000"))
	s.play(`1s a in=3 q=5 ok*3 | n in=1 q=1 | o in=4 q=4 | pool group/g used=3/900 wait=2/600
		+1s b in=3 q=5 ok*20 | n in=1 overloaded transport*30
		+1s a in=2 q=5 overloaded rate_limited(after=3s) | o in=4 q=4 overloaded
		+1s command pause o for=10s
		+9s b in=3 q=5 ok*20 | n q=5
		+12s tick`)
	return s.f
}

// holdState holds that a decoded fleet is a state: it encodes to what decodes
// to the same, folds and can be read.
func holdState(t *testing.T, f *Fleet) {
	first := f.AppendBinary(nil)
	again, err := DecodeFleet(first)
	if err != nil {
		t.Fatalf("what it encodes to is no state: %v", err)
	}
	if second := again.AppendBinary(nil); !bytes.Equal(first, second) {
		t.Fatalf("encodes to\n%x, decoded again to\n%x", first, second)
	}
	var fx Effects
	for i, fact := range []Fact{
		&Attempts{Source: Source{Agent: "a", Boot: 1, Seq: math.MaxUint32, Span: 1}, Channels: []ChannelReport{{Channel: "m", InFlight: 3, Queued: 3}}, Attempts: []Attempt{
			{Class: ClassOK, UsageKnown: true, In: 1000, Out: 100, Took: Second}, {Class: ClassOverloaded, Epoch: math.MaxUint64}, {Class: ClassTransport},
		}},
		&Tick{Term: f.Term(), Elapsed: Hour}, &Command{Command: CommandResume, Channel: "m"}, &Tick{Term: f.Term(), Elapsed: Hour},
	} {
		f.Apply(Record{Seq: f.Seq() + 1, Time: f.LastTime() + Nanos(i)*Second, Fact: fact}, &fx)
	}
	for _, agent := range fx.Leases {
		f.Lease(agent)
	}
	f.LimitSet(nil)
	f.View()
	_ = f.Describe()
}
