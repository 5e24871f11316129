package controller_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/controller"
	"weir/events"
	"weir/model"
)

func TestLeadsConfiguresAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		s := r.status()
		if !s.Leads || !s.CaughtUp || s.Term != 1 || s.Seq != 2 {
			t.Errorf("status %+v, want leading term 1 at record 2", s)
		}
		facts := r.facts()
		if lead, ok := facts[0].(*model.Lead); !ok || lead.Term != 1 || lead.Version != "v1" || lead.Laws != model.LawVersion {
			t.Errorf("first fact %+v, want the lead of term 1", facts[0])
		}
		if c, ok := facts[1].(*model.Config); !ok || len(c.Channels) != 2 {
			t.Errorf("second fact %+v, want the configuration", facts[1])
		}
		time.Sleep(time.Second)
		terms, sets, _ := r.out.forget()
		if len(terms) != 1 || terms[0].Term != 1 || !strings.HasPrefix(terms[0].Controller, "controller.") {
			t.Errorf("terms told %+v, want term 1 once", terms)
		}
		if len(sets) == 0 || !sets[0].full {
			t.Fatalf("limits told %+v, want a full set first", sets)
		}
		if last := sets[len(sets)-1].set; len(last.Channels) != 2 || last.Term != 1 {
			t.Errorf("last limits %+v, want both channels of term 1", last)
		}
		if len(r.out.confs) != 1 && len(r.out.confs) != 2 || r.out.confs[len(r.out.confs)-1] != 2 {
			t.Errorf("configurations told %v, want that of record 2", r.out.confs)
		}
		r.wantFold()
	})
}

func TestTicksWhenNothingComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		time.Sleep(time.Minute)
		synctest.Wait()
		var elapsed model.Nanos
		ticks := 0
		for _, f := range r.facts() {
			tick, ok := f.(*model.Tick)
			if !ok {
				continue
			}
			ticks++
			elapsed += tick.Elapsed
			if tick.Term != 1 || tick.Elapsed > 5*model.Second {
				t.Errorf("tick %+v, want term 1 and at most 5 s", tick)
			}
		}
		if ticks < 12 || ticks > 20 {
			t.Errorf("%d ticks in a quiet minute, want one every 5 s or few more", ticks)
		}
		if elapsed < 55*model.Second || elapsed > model.Minute {
			t.Errorf("ticks measured %s of a minute", elapsed)
		}
		r.wantFold()
	})
}

func TestNothingIsToldBeforeTheTermIsReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		x := r.agent("x")
		for range 50 {
			x.send(ok())
		}
		slow := &liar{Log: r.log, delay: 100 * time.Millisecond}
		r.log = slow
		r.start()
		defer r.end()
		time.Sleep(4 * time.Second) // 50 entries take 5 s
		if terms, sets, leases := r.out.forget(); len(terms)+len(sets)+len(leases) != 0 {
			t.Errorf("told %v %v %v before the log was folded", terms, sets, leases)
		}
		if s := r.status(); s.CaughtUp || s.Leads || s.Lag == 0 {
			t.Errorf("status %+v while catching up", s)
		}
		time.Sleep(4 * time.Second)
		if s := r.status(); !s.CaughtUp || !s.Leads {
			t.Errorf("status %+v, want caught up and leading", s)
		}
	})
}

func TestBroadcastsAreCoalescedAndCutsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		agents := []*agent{r.agent("x"), r.agent("y"), r.agent("z")}
		time.Sleep(time.Second)
		r.out.forget()
		const reports = 400
		for i := range reports {
			agents[i%3].send(ok(), ok())
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		_, sets, leases := r.out.forget()
		if len(sets) == 0 || len(sets) > 30 {
			t.Errorf("%d broadcasts in 500 ms, want at most one per 20 ms", len(sets))
		}
		if len(leases) == 0 || len(leases) > 90 {
			t.Errorf("%d leases for 3 agents in 500 ms, want at most one each per 20 ms", len(leases))
		}
		agents[0].send(ok())
		synctest.Wait()
		sent := time.Now()
		agents[1].send(refusal())
		synctest.Wait()
		_, sets, _ = r.out.forget()
		cut := false
		for _, s := range sets {
			for _, c := range s.set.Channels {
				cut = cut || c.Channel == "a" && c.Epoch == 1 && s.at.Equal(sent)
			}
		}
		if !cut {
			t.Errorf("the cut was not told at once: %+v", sets)
		}
		r.wantFold()
	})
}

func TestResumeFoldsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		x := r.agent("x")
		for range 100 {
			x.send(ok(), ok(), refusal())
		}
		time.Sleep(time.Second)
		before := r.status().Seq
		r.restart()
		defer r.end()
		if s := r.status(); s.Term != 2 || !s.Leads || len(s.Faults) != 0 || s.Owed != "" {
			t.Errorf("status %+v, want term 2 without a fault", s)
		}
		r.wantMetric("weir_fold_events_total", "1") // the new lead
		if seq := r.status().Seq; seq != before+1 {
			t.Errorf("at record %d, want %d", seq, before+1)
		}
		if got := r.view().Counters; got.Attempts != 300 || got.Lost != 0 || got.Repeated != 0 {
			t.Errorf("counters %+v, want 300 attempts", got)
		}
		r.wantFold()
	})
}

// TestLongTail has more to fold at the start than is folded in one run.
func TestLongTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		x := r.agent("x")
		for range 3000 {
			x.send(ok())
		}
		r.start()
		defer r.end()
		synctest.Wait()
		if s := r.status(); !s.Leads || len(s.Faults) != 0 || s.Lost != 0 {
			t.Errorf("status %+v, want nothing lost", s)
		}
		if got := r.view().Counters.Attempts; got != 3000 {
			t.Errorf("%d attempts, want 3,000", got)
		}
		r.wantFold()
	})
}

// TestPowerCutAnywhere stops at many moments with only the last synced state
// left; what is folded again gives the same.
func TestPowerCutAnywhere(t *testing.T) {
	for _, run := range []int{0, 17, 40, 111, 260, 499, 777, 1300} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.start()
			x := r.agent("x")
			go func() {
				for range 200 {
					x.send(ok())
					time.Sleep(5 * time.Millisecond)
				}
			}()
			time.Sleep(time.Duration(run) * time.Millisecond)
			left := r.store.after()
			r.end()
			r.store = left
			r.start()
			defer r.end()
			time.Sleep(2 * time.Second)
			if got := r.view().Counters; got.Attempts != 200 || got.Lost != 0 {
				t.Errorf("cut after %d ms: counters %+v, want 200 attempts", run, got)
			}
			if s := r.status(); len(s.Faults) != 0 {
				t.Errorf("cut after %d ms: faults %+v", run, s.Faults)
			}
			r.wantFold()
		})
	}
}

func TestDuplicateDeliveryIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.log = &liar{Log: r.log, twice: true}
		r.start()
		defer r.end()
		x := r.agent("x")
		for range 50 {
			x.send(ok())
		}
		synctest.Wait()
		if got := r.view().Counters.Attempts; got != 50 {
			t.Errorf("%d attempts, want 50", got)
		}
		if s := r.status(); s.Duplicates != s.Seq {
			t.Errorf("%d duplicates of %d entries", s.Duplicates, s.Seq)
		}
		r.wantFold()
	})
}

func TestUnreadableEntriesAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		x := r.agent("x")
		other := events.Encode(nil, &model.Attempts{Source: model.Source{Agent: "y", Boot: 1, Seq: 1, Span: 1}})
		for _, data := range [][]byte{nil, {0}, []byte("junk"), other, make([]byte, events.MaxEntry)} {
			if err := r.bus.Writer("x").Write(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
		x.writer = r.bus.Writer("x")
		x.send(ok())
		synctest.Wait()
		r.wantMetric("weir_log_unreadable_total", "5")
		if got := r.view().Counters; got.Attempts != 1 || got.Unreadable != 5 {
			t.Errorf("counters %+v, want 1 attempt and 5 unreadable", got)
		}
		if n := strings.Count(r.text.String(), "cannot be read"); n != 3 { // the first, second and fourth
			t.Errorf("logged %d times:\n%s", n, r.text)
		}
		r.wantFold()
	})
}

// TestReportsOfOtherVersions has agents report as one did before the first
// addition, as a newer one of this generation may, in kinds to come, and as one
// of the next generation does: what can be read counts, the rest is counted.
func TestReportsOfOtherVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		report := func(agent string, next model.Tokens) []byte {
			return events.Encode(nil, &model.Attempts{
				Source:   model.Source{Agent: agent, Boot: 1, Seq: 1, Span: 1},
				Channels: []model.ChannelReport{{Channel: "a"}}, Pools: []model.PoolReport{{Pool: "channel/a", Next: next}}, Attempts: []model.Attempt{ok()},
			})
		}
		old, newer, foreign := report("old", 0), report("newer", 5), report("foreign", 0)
		if old[0]&15 != 0 || newer[0]&15 == 0 {
			t.Fatalf("versions %x and %x", old[0], newer[0])
		}
		newer[0] |= 15
		foreign[0] += 16
		for agent, data := range map[string][]byte{"old": old, "newer": append(newer, 3, 1, 2, 3), "foreign": foreign} {
			if err := r.bus.Writer(agent).Write(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.log.Append(t.Context(), []byte{0x1f, 99, 1, 2}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.view().Counters; got.Attempts != 2 || got.Unreadable != 1 || got.Unknown != 1 {
			t.Errorf("counters %+v, want 2 attempts, 1 unreadable and 1 unknown", got)
		}
		r.wantFold()
	})
}

func TestOutboxDownNeverStopsTheFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		x := r.agent("x")
		x.send(ok())
		time.Sleep(time.Second)
		r.out.forget()
		r.out.setFail(errTest)
		for range 100 {
			x.send(ok(), refusal())
			time.Sleep(50 * time.Millisecond)
		}
		seq := r.status().Seq
		if s := r.status(); s.Telling != errTest.Error() || r.view().Counters.Attempts != 201 {
			t.Errorf("status %+v with %d attempts folded", s, r.view().Counters.Attempts)
		}
		r.out.setFail(nil)
		time.Sleep(6 * time.Second)
		_, sets, leases := r.out.forget()
		if len(sets) == 0 || sets[0].set.Seq < seq || len(leases) == 0 || leases[0].Seq < seq {
			t.Errorf("first told afterwards %+v %+v, want the state at %d or later", sets, leases, seq)
		}
		if s := r.status(); s.Telling != "" {
			t.Errorf("still failing: %s", s.Telling)
		}
		r.wantFold()
	})
}

func TestSlowStoreNeverStopsTheFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.store.delay = 3 * time.Second
		r.start()
		x := r.agent("x")
		for range 100 {
			x.send(ok(), refusal())
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if got := r.view().Counters.Attempts; got != 200 {
			t.Errorf("%d attempts folded while the disk is slow, want 200", got)
		}
		if _, sets, _ := r.out.forget(); len(sets) < 2 {
			t.Errorf("%d broadcasts while the disk is slow", len(sets))
		}
		r.store.set(func(m *memory) {
			if m.commits > 1 {
				t.Errorf("%d commits in a second", m.commits)
			}
		})
		r.restart()
		defer r.end()
		time.Sleep(10 * time.Second)
		r.wantFold()
	})
}

func TestFailedCommitStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.store.set(func(m *memory) { m.fail = errTest })
		r.agent("x").send(ok())
		if err := <-r.done; !errors.Is(err, errTest) {
			t.Errorf("Run returned %v, want the commit's error", err)
		}
		if _, err := r.loop.Status(t.Context()); !errors.Is(err, controller.ErrStopped) {
			t.Errorf("Status returned %v, want ErrStopped", err)
		}
	})
}

func TestUnreadableStoreIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, spoil := range map[string]func(*memory){
			"failing":  func(m *memory) { m.fail = errTest },
			"damaged":  func(m *memory) { m.parts["head"] = []byte("x") },
			"partial":  func(m *memory) { delete(m.parts, "head") },
			"position": func(m *memory) { m.position.Seq++ },
		} {
			r := newRig(t)
			r.start()
			r.end()
			r.store.set(spoil)
			r.start()
			if err := <-r.done; err == nil || !strings.Contains(err.Error(), "load state") {
				t.Errorf("%s: Run returned %v, want that the state cannot be loaded", name, err)
			}
		}
	})
}

func TestAnotherLeaderSilencesThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		time.Sleep(time.Second)
		other := &model.Lead{Term: 7, Controller: "other", Laws: model.LawVersion}
		if _, err := r.log.Append(t.Context(), events.Encode(nil, other)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.out.forget()
		seq := r.status().Seq
		r.agent("x").send(refusal())
		time.Sleep(time.Minute)
		if s := r.status(); s.Leads || s.Seq != seq+1 {
			t.Errorf("status %+v, want silent and one record further", s)
		}
		if terms, sets, leases := r.out.forget(); len(terms)+len(sets)+len(leases) != 0 {
			t.Errorf("told %v %v %v under another's term", terms, sets, leases)
		}
		r.wantFold()
	})
}

// TestTermBeyondTheLog has a bus that knows a later term than the log, which
// was lost: the leader climbs over it.
func TestTermBeyondTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if err := r.bus.Outbox().PutTerm(t.Context(), &model.TermNotice{Term: 100, Controller: "old"}); err != nil {
			t.Fatal(err)
		}
		r.start()
		defer r.end()
		time.Sleep(2 * time.Minute)
		s := r.status()
		if !s.Leads || s.Term <= 100 || s.Telling != "" {
			t.Errorf("status %+v, want leading beyond term 100", s)
		}
		if n := r.count(model.KindLead); n > 10 {
			t.Errorf("%d terms were asked for, want about log2 of 100", n)
		}
		r.out.forget()
		r.agent("x").send(ok())
		synctest.Wait()
		if _, _, leases := r.out.forget(); len(leases) != 1 || leases[0].Term != s.Term {
			t.Errorf("leases %+v, want one of term %d", leases, s.Term)
		}
	})
}

func TestConfigurationFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		if n := r.count(model.KindConfig); n != 1 {
			t.Errorf("%d configurations after the first start, want 1", n)
		}
		r.restart()
		if n := r.count(model.KindConfig); n != 1 {
			t.Errorf("%d configurations after a second start, want 1", n)
		}
		// What an operator pushed stays in force while the file is the same.
		seq, err := r.loop.Append(t.Context(), config("a", "b", "c"))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.loop.Wait(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		r.restart()
		if got := len(r.view().Channels); got != 3 {
			t.Errorf("%d channels, want the 3 that were pushed", got)
		}
		r.opts.Config = config("d")
		r.restart()
		defer r.end()
		if v := r.view(); len(v.Channels) != 1 || v.Channels[0].Name != "d" {
			t.Errorf("channels %+v, want the new file's", v.Channels)
		}
	})
}

func TestOperatorsCommandIsFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer r.end()
		seq, err := r.loop.Append(t.Context(), &model.Command{Command: model.CommandPause, Channel: "a", For: model.Minute, By: "ann", Why: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.loop.Wait(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		if c := r.view().Channels[0]; c.Wait <= 0 {
			t.Errorf("channel %+v, want paused", c)
		}
		time.Sleep(100 * time.Millisecond)
		got, err := r.loop.Decisions(controller.DecisionQuery{Channel: "a", Rule: "command"})
		if err != nil || len(got) != 1 || got[0].Seq != seq || !strings.Contains(got[0].Reason, "by ann: test") {
			t.Errorf("decisions %+v, %v; want ann's pause", got, err)
		}
	})
}

func TestBusDownAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		cut := []string{memlogController}
		r.bus.SetFaults(faults(cut))
		r.start()
		time.Sleep(time.Minute)
		r.bus.SetFaults(faults(nil))
		time.Sleep(10 * time.Second)
		if s := r.status(); !s.Leads {
			t.Errorf("status %+v, want leading once the bus is there", s)
		}
		// And away in the middle.
		r.bus.SetFaults(faults(cut))
		time.Sleep(time.Minute)
		r.bus.SetFaults(faults(nil))
		r.agent("x").send(ok())
		time.Sleep(10 * time.Second)
		if s, v := r.status(), r.view(); !s.Leads || v.Counters.Attempts != 1 || len(s.Faults) != 0 {
			t.Errorf("status %+v, want leading, one attempt, no faults", s)
		}
		r.wantFold()
		r.bus.SetFaults(faults(cut))
		r.end()
	})
}
