package model

import (
	"fmt"
	"testing"
)

// benchFleet is a fleet of n agents in the middle of its work: 8 channels in
// two groups with budgets, 4 of them used.
type benchFleet struct {
	f       *Fleet
	fx      Effects
	now     Nanos
	reports []*Attempts
}

func newBenchFleet(tb testing.TB, n, attempts int) *benchFleet {
	b := &benchFleet{f: NewFleet(), now: origin}
	c := &Config{Groups: []GroupConfig{
		{Name: "g0", Limits: Limits{RequestsPerMinute: 600_000, TokensPerMinute: 900_000_000}},
		{Name: "g1", Limits: Limits{RequestsPerMinute: 600_000, TokensPerMinute: 900_000_000}},
	}}
	for i := range 8 {
		c.Channels = append(c.Channels, ChannelConfig{Name: fmt.Sprint("c", i), Groups: []string{fmt.Sprint("g", i%2)}})
	}
	b.apply(c)
	for i := range n {
		r := &Attempts{Source: Source{Agent: fmt.Sprintf("agent-%04d", i), Boot: 1, Span: 1}}
		for k := range 4 {
			r.Channels = append(r.Channels, ChannelReport{Channel: fmt.Sprint("c", k), InFlight: 4, Accepted: 3, Queued: 3, WaitingTokens: 3000})
		}
		for k := range 2 {
			r.Pools = append(r.Pools, PoolReport{Pool: PoolOfGroup(fmt.Sprint("g", k)), WaitingRequests: 6, WaitingTokens: 6000})
		}
		for k := range attempts {
			r.Attempts = append(r.Attempts, Attempt{
				Channel: uint16(k % 4), Class: ClassOK, Try: 1, Took: 2 * Second, FirstToken: 300 * Millisecond,
				In: Tokens(500 + k), Out: Tokens(50 + k), UsageKnown: true, RetryAfter: -1,
			})
		}
		b.reports = append(b.reports, r)
	}
	for i := range 4 * n {
		b.report(i)
	}
	if err := b.f.check(); err != nil {
		tb.Fatal(err)
	}
	return b
}

func (b *benchFleet) apply(fact Fact) {
	b.fx.Reset()
	b.f.Apply(Record{Seq: b.f.Seq() + 1, Time: b.now, Fact: fact}, &b.fx)
}

// report folds the next report of one agent, with demand that changes, so that
// leases are divided anew.
func (b *benchFleet) report(i int) {
	r := b.reports[i%len(b.reports)]
	b.now += 100 * Millisecond / Nanos(len(b.reports))
	r.Seq++
	r.Base += uint64(len(r.Attempts))
	for k := range r.Channels {
		c := &r.Channels[k]
		c.Queued = uint32((i + k) % 7)
		c.Applied = b.f.Seq()
	}
	for k := range r.Pools {
		r.Pools[k].UsedRequests += int64(len(r.Attempts) / 2)
		r.Pools[k].UsedTokens += Tokens(500 * len(r.Attempts))
		r.Pools[k].Applied = b.f.Seq()
	}
	b.apply(r)
	if i%50 == 0 {
		b.f.Clean()
	}
}

// BenchmarkApply folds reports of 100 attempts, as a busy fleet sends them.
func BenchmarkApply(b *testing.B) {
	for _, agents := range []int{64, 1000} {
		b.Run(fmt.Sprint(agents, "agents"), func(b *testing.B) {
			f := newBenchFleet(b, agents, 100)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				f.report(i)
				i++
			}
			b.ReportMetric(float64(100*i)/b.Elapsed().Seconds(), "attempts/s")
		})
	}
}

// BenchmarkSignsOfLife folds reports without attempts.
func BenchmarkSignsOfLife(b *testing.B) {
	f := newBenchFleet(b, 64, 0)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		f.report(i)
		i++
	}
}

// BenchmarkPass divides a window among agents that all want more than there is.
func BenchmarkPass(b *testing.B) {
	for _, agents := range []int{64, 1000} {
		for _, limit := range []int64{40, 5000} {
			b.Run(fmt.Sprint(agents, "agents/", limit, "slots"), func(b *testing.B) {
				x := newPasses(agents)
				for i := range x.c.leases {
					x.c.leases[i].queued = int64(i % 20)
				}
				b.ReportAllocs()
				for b.Loop() {
					x.c.leases[x.rev%uint64(agents)].queued = int64(x.rev % 23)
					x.now += 50 * Millisecond
					x.pass(limit)
				}
			})
		}
	}
}

// BenchmarkDigest hashes the state of a fleet of 64 and of 1000 agents.
func BenchmarkDigest(b *testing.B) {
	for _, agents := range []int{64, 1000} {
		b.Run(fmt.Sprint(agents, "agents"), func(b *testing.B) {
			f := newBenchFleet(b, agents, 10)
			b.SetBytes(int64(len(f.f.AppendBinary(nil))))
			b.ReportAllocs()
			for b.Loop() {
				f.f.Digest()
			}
		})
	}
}

// BenchmarkDecode reads the state of a fleet of 1000 agents.
func BenchmarkDecode(b *testing.B) {
	bytes := newBenchFleet(b, 1000, 10).f.AppendBinary(nil)
	b.SetBytes(int64(len(bytes)))
	for b.Loop() {
		if _, err := DecodeFleet(bytes); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFoldAllocates holds the fold of reports free of allocation once every
// agent is known and what is told is sent: nothing of a busy hour is garbage.
func TestFoldAllocates(t *testing.T) {
	if invariants {
		t.Skip("the fold checks itself after every record here, and that allocates")
	}
	f := newBenchFleet(t, 64, 100)
	i := 0
	fold := func() {
		f.report(i)
		i++
	}
	for range 1000 {
		fold()
	}
	if got := testing.AllocsPerRun(1000, fold); got != 0 {
		t.Errorf("%v allocations per report, want 0", got)
	}
}

// BenchmarkFleetPass divides 100 channels among 10,000 agents of which each
// uses 20, so that every channel has 2,000 leases.
func BenchmarkFleetPass(b *testing.B) {
	const channels, agents = 100, 2000
	all := make([]*passes, channels)
	for i := range all {
		all[i] = newPasses(agents)
	}
	for turn := 0; b.Loop(); turn++ {
		for _, x := range all {
			for i := range x.c.leases {
				x.c.leases[i].queued = int64((i + turn) % 20)
			}
			x.now += 50 * Millisecond
			x.pass(5000)
		}
	}
}
