package model

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestRollbackBringsBack pushes sets, with and without guards and canaries,
// under any load. Whatever happens: once nothing is watched, the set in force
// is the newest that was pushed without a guard or was kept; while a canary is
// watched, its channel alone uses another; a watch ends by its deadline; and
// the state, stored and read at any point, goes on in the same way.
func TestRollbackBringsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := NewFleet()
		var fx Effects
		now, seq := origin, uint64(0)
		safe, safeSeq := f.params.Params, f.paramsSeq
		var last *ParamSet
		fold := func(fact Fact) {
			seq++
			if rapid.IntRange(0, 20).Draw(t, "store") == 0 {
				again, err := DecodeFleet(f.AppendBinary(nil))
				if err != nil {
					t.Fatal(err)
				}
				f = again
			}
			watched := f.guard
			fx.Reset()
			f.Apply(Record{Seq: seq, Time: now, Fact: fact}, &fx)
			if s, ok := fact.(*ParamSet); ok {
				if last = s; s.Guard.For == 0 {
					safe, safeSeq, last = s.Params, seq, nil
				}
				return
			}
			if watched != nil && f.guard == nil { // a verdict
				if verdictOf(t, &fx).Params == watched.hash {
					if safe, safeSeq = last.Params, f.paramsSeq; last.Canary == "" && f.paramsSeq != watched.seq {
						t.Fatalf("kept, but record %d is said to have brought it, not %d", f.paramsSeq, watched.seq)
					}
				}
				last = nil
			}
		}
		fold(&Config{Fleet: "f", Channels: []ChannelConfig{{Name: "m"}, {Name: "n"}}})
		for i := range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				fold(drawPush(t, i))
			case 1:
				now += Nanos(rapid.IntRange(0, 40).Draw(t, "quiet")) * Second
				fold(&Tick{Term: f.Term(), Elapsed: now - f.LastTime()})
			default:
				drawLoad(t, func(a *Attempts) { now += Second; a.Seq, a.Base = f.next("a"), f.base("a"); fold(a) })
			}
			checkWatched(t, f, last, &safe, safeSeq)
		}
	})
}

// next and base are what an agent's next report has to say.
func (f *Fleet) next(agent string) uint64 {
	if m := f.member(agent); m != nil {
		return m.next
	}
	return 1
}

func (f *Fleet) base(agent string) uint64 {
	if m := f.member(agent); m != nil {
		return m.base
	}
	return 0
}

// verdictOf is the decision that ended a watch.
func verdictOf(t *rapid.T, fx *Effects) Decision {
	for _, d := range fx.Decisions {
		if d.Rule == RuleParams {
			return d
		}
	}
	t.Fatal("a watch ended without a decision")
	return Decision{}
}

func drawPush(t *rapid.T, i int) *ParamSet {
	p := &ParamSet{Name: fmt.Sprint("p", i), Params: DefaultParams()}
	p.Params.Plateau = Nanos(i+1) * Second
	p.Params.WindowMax = Milli(rapid.IntRange(1, 100).Draw(t, "window max")) * 1000
	if rapid.IntRange(0, 3).Draw(t, "guarded") > 0 {
		p.Guard = Guard{For: Nanos(rapid.IntRange(10, 60).Draw(t, "for")) * Second, Goodput: PPM(rapid.IntRange(-30, 0).Draw(t, "goodput")) * 10_000, Waste: PPM(rapid.IntRange(0, 30).Draw(t, "waste")) * 10_000}
		p.Canary = rapid.SampledFrom([]string{"", "m", "n"}).Draw(t, "canary")
	}
	return p
}

// drawLoad is some seconds of reports of one agent.
func drawLoad(t *rapid.T, send func(*Attempts)) {
	inflight := uint32(rapid.IntRange(1, 40).Draw(t, "in flight"))
	ok, bad := rapid.IntRange(0, 60).Draw(t, "ok"), rapid.IntRange(0, 5).Draw(t, "bad")
	for range rapid.IntRange(1, 30).Draw(t, "seconds") {
		a := &Attempts{Source: Source{Agent: "a", Boot: 1, Span: 1}, Channels: []ChannelReport{{Channel: "m", InFlight: inflight}, {Channel: "n", InFlight: 20}}}
		for i := range 2 {
			for range ok {
				a.Attempts = append(a.Attempts, Attempt{Channel: uint16(i), Class: ClassOK, Took: Second / 2, RetryAfter: -1})
			}
		}
		for range bad {
			a.Attempts = append(a.Attempts, Attempt{Class: ClassRateLimited, Took: Second / 2, RetryAfter: -1})
		}
		send(a)
	}
}

func checkWatched(t *rapid.T, f *Fleet, last *ParamSet, safe *Params, safeSeq uint64) {
	t.Helper()
	want := *safe
	switch {
	case last == nil:
		if f.guard != nil {
			t.Fatal("something is watched")
		}
		if f.paramsSeq != safeSeq {
			t.Fatalf("the set is said to be record %d's, want %d's", f.paramsSeq, safeSeq)
		}
	case f.guard == nil:
		t.Fatal("nothing is watched")
	case last.Canary == "":
		want = last.Params
	}
	if f.params.Params != want || f.hash != want.Hash() {
		t.Fatalf("in force is %s (%s), want %s", f.params.Name, f.hash, want.Hash())
	}
	for _, c := range f.channels {
		if last != nil && last.Canary == c.name {
			if *f.parOf(c) != last.Params {
				t.Fatalf("the canary %s does not use its set", c.name)
			}
		} else if *f.parOf(c) != want {
			t.Fatalf("channel %s uses another set than the fleet", c.name)
		}
	}
	if g := f.guard; g != nil && f.now > g.ends+guardHush+grain {
		t.Fatalf("watched %s longer than it should be", f.now-g.ends)
	}
	if g := f.guard; g != nil && f.NextWake() > max(g.next, f.now)+grain {
		t.Fatalf("the next look is due in %s, a record is wanted in %s", g.next-f.now, f.NextWake()-f.now)
	}
}
