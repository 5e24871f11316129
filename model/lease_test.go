package model

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMaxMinIsTheDumbOne compares the division with handing out single slots
// to whoever has fewest.
func TestMaxMinIsTheDumbOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demands := rapid.SliceOfN(rapid.Int64Range(0, 12), 0, 12).Draw(t, "demands")
		limit := rapid.Int64Range(0, 60).Draw(t, "limit")
		s := share{base: limit}
		if total := sum(demands); total > limit {
			s = maxMin(slices.Clone(demands), limit)
		}
		got := make([]int64, len(demands))
		extra := s.extra
		for i, d := range demands {
			if got[i] = min(d, s.base); extra > 0 && d > s.base {
				got[i]++
				extra--
			}
		}
		want := make([]int64, len(demands))
		for left := limit; left > 0; left-- {
			least := -1
			for i := range want {
				if want[i] < demands[i] && (least < 0 || want[i] < want[least]) {
					least = i
				}
			}
			if least < 0 {
				break
			}
			want[least]++
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || extra > 0 {
			t.Fatalf("%d among %v: %v (%+v), want %v", limit, demands, got, s, want)
		}
	})
}

func sum(all []int64) (n int64) {
	for _, v := range all {
		n += v
	}
	return n
}

// TestCutSumsExactly holds that leases at ranges one after another keep
// together exactly the cut's share of them all.
func TestCutSumsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 9), 0, 40).Draw(t, "slots")
		den := rapid.Int64Range(1, 1<<40).Draw(t, "den")
		num := rapid.Int64Range(0, den).Draw(t, "num")
		cuts := []Cut{{1, num, den}, {2, rapid.Int64Range(0, 7).Draw(t, "num 2"), 7}}
		at := make([]int64, len(sizes))
		var total int64
		for i := range sizes {
			at[i] = total
			total += sizes[i]
		}
		for _, cut := range cuts {
			want := mulDiv(total, cut.Num, cut.Den)
			total = 0
			for i := range sizes {
				sizes[i], at[i] = cut.Apply(sizes[i], at[i])
				if sizes[i] < 0 || at[i] != total {
					t.Fatalf("lease %d keeps %d at %d, want it at %d", i, sizes[i], at[i], total)
				}
				total += sizes[i]
			}
			if total != want {
				t.Fatalf("together %d, want %d", total, want)
			}
		}
	})
}

// TestLeaseClaimCoversWhatItMayObey plays an agent that hears some of the
// grants and cuts, in order, and acknowledges at times.
func TestLeaseClaimCoversWhatItMayObey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lease
		var cuts []Cut
		obeys := leaseMark{}
		heard := obeys // what the newest message made it
		for rev := uint64(1); rev < 60; rev++ {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				slots := rapid.Int64Range(0, 30).Draw(t, "slots")
				l.grant(slots, rapid.Int64Range(0, slots).Draw(t, "safe"), rapid.Int64Range(0, 30).Draw(t, "offset"), rev)
				heard = leaseMark{l.rev, l.slots, l.safe, l.offset}
			case 2:
				den := rapid.Int64Range(1, 40).Draw(t, "den")
				cuts = append(cuts, Cut{rev, rapid.Int64Range(0, den).Draw(t, "num"), den})
				cuts = cuts[max(len(cuts)-MaxCuts, 0):]
				l.cut(cuts)
				heard = leaseMark{l.rev, l.slots, l.safe, l.offset}
				if rapid.Bool().Draw(t, "broadcast") {
					obeys = obeys.after(cuts)
				}
			case 3:
				l.acknowledge(obeys.rev)
			}
			if rapid.IntRange(0, 2).Draw(t, "message") == 0 {
				obeys = heard
			}
			claim, safe := l.most, int64(0)
			for _, m := range l.marks {
				safe = max(safe, m.safe)
			}
			if obeys.slots > claim || obeys.safe > safe || len(l.marks) > maxMarks {
				t.Fatalf("at %d the agent obeys %+v, claim %d safe %d of %+v", rev, obeys, claim, safe, l.marks)
			}
		}
		// In the end it hears all, and the claim is what it holds.
		l.grant(l.slots, l.safe, l.offset, 99)
		l.acknowledge(99)
		if l.claim(0) != l.slots || l.unsure {
			t.Fatalf("acknowledged, the claim is %d of %d", l.claim(0), l.slots)
		}
	})
}

// passes is a channel whose agents obey at once.
type passes struct {
	c   *channel
	p   Params
	now Nanos
	rev uint64
}

func newPasses(n int) *passes {
	x := &passes{p: DefaultParams(), now: Minute}
	x.c = newChannel("m", &x.p, x.now)
	for i := range n {
		x.c.lease(fmt.Sprintf("a%04d", i), new(int))
	}
	return x
}

// pass divides and lets the agents obey, and returns what was granted in all.
func (x *passes) pass(limit int64) (sum int64) {
	x.rev++
	x.c.touchAll()
	x.c.pass(&x.p, x.now, limit, x.rev, false, func(string) {})
	for i := range x.c.leases {
		l := &x.c.leases[i]
		l.acknowledge(l.rev)
		sum += l.slots
	}
	return sum
}

// TestPassNobodyStarves is invariant 7: with any limit of at least one, every
// agent with demand gets a slot within as many turns as go round, though a
// slot is free only when a call has ended.
func TestPassNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{2, 7, 64}).Draw(t, "agents")
		limit := rapid.Int64Range(1, int64(n)).Draw(t, "limit")
		call := Nanos(rapid.IntRange(0, 6).Draw(t, "call")) * Second
		x := newPasses(n)
		served := make([]Nanos, n)
		ends := make([]Nanos, n)
		for i := range served {
			served[i] = x.now
		}
		turns := Nanos((int64(n) + limit - 1) / limit)
		longest := (turns + 1) * (x.p.RotateEvery + call + Second)
		for until := x.now + 3*longest; x.now < until; x.now += 500 * Millisecond {
			for i := range x.c.leases {
				l := &x.c.leases[i]
				l.queued = 5
				if l.inflight > 0 && x.now >= ends[i] {
					l.inflight = 0
				}
				if l.inflight < l.slots {
					l.inflight, ends[i], served[i] = 1, x.now+call, x.now
				}
				if x.now-served[i] > longest+call {
					t.Fatalf("agent %d of %d waits %s for one of %d slots", i, n, x.now-served[i], limit)
				}
			}
			if sum := x.pass(limit); sum > limit {
				t.Fatalf("%d slots granted of %d", sum, limit)
			}
		}
	})
}

// TestPassSettles holds that a division that nothing changes asks for nothing.
func TestPassSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "agents")
		limit := rapid.Int64Range(0, 200).Draw(t, "limit")
		x := newPasses(n)
		for i := range x.c.leases {
			x.c.leases[i].queued = rapid.Int64Range(0, 30).Draw(t, "queued")
		}
		for range 3 {
			x.pass(limit)
		}
		x.rev++
		x.c.touchAll()
		x.c.pass(&x.p, x.now, limit, x.rev, false, func(agent string) {
			t.Fatalf("%s is told again: %+v", agent, x.c.leases)
		})
		var sum, want int64
		for i := range x.c.leases {
			sum += x.c.leases[i].slots
			want += x.c.leases[i].queued
		}
		if sum > limit || sum < min(want, limit) {
			t.Fatalf("%d granted, wanted %d, limit %d", sum, want, limit)
		}
	})
}

// TestPassOffsetsAreApart holds that rank ranges never overlap, whatever is
// granted and given back, so that a cut leaves no more than its share.
func TestPassOffsetsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newPasses(rapid.IntRange(1, 12).Draw(t, "agents"))
		for range rapid.IntRange(1, 20).Draw(t, "passes") {
			for i := range x.c.leases {
				if rapid.IntRange(0, 2).Draw(t, "changes") == 0 {
					x.c.leases[i].queued = rapid.Int64Range(0, 9).Draw(t, "queued")
				}
			}
			x.now += Second
			x.pass(rapid.Int64Range(1, 40).Draw(t, "limit"))
			type span struct{ from, to int64 }
			var spans []span
			for i := range x.c.leases {
				if l := &x.c.leases[i]; l.slots > 0 {
					spans = append(spans, span{l.offset, l.offset + l.slots})
				}
			}
			slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
			for i := 1; i < len(spans); i++ {
				if spans[i].from < spans[i-1].to {
					t.Fatalf("ranges overlap: %v", spans)
				}
			}
		}
	})
}

// TestUsedOfWhatArrived holds that slots on their way count as unused only where
// they arrive in less than a step of growth takes.
func TestUsedOfWhatArrived(t *testing.T) {
	p := DefaultParams()
	c := newChannel("a", &p, Second)
	c.window.settle(8_000, Second)
	c.leases = []lease{{agent: "x", inflight: 4, queued: 9}}
	l := &c.leases[0]
	l.grant(4, 4, 0, 1)
	l.grant(8, 8, 0, 2)
	c.inflight = 4
	for _, tt := range []struct {
		answer Nanos
		ack    uint64
		want   bool
	}{
		{10 * Millisecond, 1, false},
		{400 * Millisecond, 1, true},
		{400 * Millisecond, 2, false},
	} {
		l.acknowledge(tt.ack)
		c.derive()
		c.answer = tt.answer
		if c.observe(&p); c.window.Used != tt.want {
			t.Errorf("4 of 8 slots in use, revision %d obeyed, %s to an answer: used is %t", tt.ack, tt.answer, c.window.Used)
		}
	}
}

// TestRegrantKeepsSums grants a lease anew that has as many unacknowledged
// grants as are kept: two become one, and what is kept of all leases follows.
func TestRegrantKeepsSums(t *testing.T) {
	f := NewFleet()
	c := &channel{name: "m", leases: []lease{{agent: "a"}}}
	f.members, f.channels = []*member{{agent: "a"}}, []*channel{c}
	l := &c.leases[0]
	for i := range int64(maxMarks) {
		c.count(l, -1)
		l.grant(i+1, 1, 0, uint64(i+1))
		c.count(l, 1)
	}
	f.seq = maxMarks + 1
	var fx Effects
	f.regrantAll(c, &fx)
	got := [...]int64{c.claimed, c.granted, c.obeyed}
	c.derive()
	if want := [...]int64{c.claimed, c.granted, c.obeyed}; got != want {
		t.Errorf("claimed, granted and surely obeyed are %d, and reckoned anew %d", got, want)
	}
}
