package controller_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/events"
	"weir/model"
)

const electedFor = 2 * time.Second

// voter is an election that can be made unreachable.
type voter struct {
	events.Election
	mu    sync.Mutex
	muted bool
}

func (v *voter) mute(m bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.muted = m
}

var errMuted = errors.New("election cannot be reached")

func (v *voter) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.muted {
		return errMuted
	}
	return nil
}

func (v *voter) Campaign(ctx context.Context) (time.Duration, error) {
	if err := v.err(); err != nil {
		return 0, err
	}
	return v.Election.Campaign(ctx)
}

func (v *voter) Resign(ctx context.Context) error {
	if err := v.err(); err != nil {
		return err
	}
	return v.Election.Resign(ctx)
}

// elector makes the rig one candidate of several.
func (r *rig) elector() *voter {
	v := &voter{Election: r.bus.Election("control", electedFor)}
	r.opts.Election = v
	return v
}

// beside returns another controller of the same fleet, with a store of its
// own, and its vote. It is not started.
func (r *rig) beside() (*rig, *voter) {
	other := &rig{t: r.t, bus: r.bus, log: r.bus.Log(), store: newMemory(), opts: r.opts}
	other.out = &spy{Outbox: r.bus.Outbox()}
	return other, other.elector()
}

// wantLeader checks who leads, and that nobody else does.
func wantLeader(t *testing.T, leader *rig, others ...*rig) {
	t.Helper()
	synctest.Wait() // what was said is folded
	if s := leader.status(); !s.Leads || s.Leader != s.Controller {
		t.Errorf("status %+v, want leading", s)
	}
	for _, o := range others {
		if s := o.status(); s.Leads || s.Leader == s.Controller {
			t.Errorf("status %+v, want standing by", s)
		}
	}
}

// TestStandbyFollowsALeaderThatDies has a leader that can renew its election
// no more, as one that was killed, hangs or is cut off: it falls silent before
// the standby speaks, which goes on from the same state.
func TestStandbyFollowsALeaderThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t)
		vote := a.elector()
		a.start()
		defer a.end()
		b, _ := a.beside()
		b.start()
		defer b.end()
		x := a.agent("x")
		for range 20 {
			x.send(ok(), ok())
			time.Sleep(100 * time.Millisecond)
		}
		wantLeader(t, a, b)
		before := b.slots("x")

		vote.mute(true)
		start := time.Now()
		for !b.status().Leads {
			if time.Sleep(10 * time.Millisecond); time.Since(start) > time.Minute {
				t.Fatal("nobody follows")
			}
			if a.status().Leads && b.status().Leads {
				t.Fatal("both lead")
			}
		}
		if after := time.Since(start); after > electedFor+500*time.Millisecond {
			t.Errorf("the standby led after %s", after)
		}
		a.out.forget()
		wantLeader(t, b, a)
		after := b.slots("x")
		x.send(ok(), ok())
		time.Sleep(100 * time.Millisecond)
		if terms, sets, leases := a.out.forget(); len(terms)+len(sets)+len(leases) != 0 {
			t.Errorf("the old leader told %v %v %v", terms, sets, leases)
		}
		if _, _, leases := b.out.forget(); before == 0 || after != before || len(leases) == 0 {
			t.Errorf("%d slots before and %d after, %d leases told", before, after, len(leases))
		}
		if c := b.view().Counters; c.Attempts != 42 || c.Lost != 0 || c.Rebases != 0 {
			t.Errorf("counters %+v, want 42 attempts", c)
		}
		vote.mute(false)
		time.Sleep(time.Minute)
		wantLeader(t, b, a)
		a.wantFold()
		b.wantFold()
		if n := a.count(model.KindLead); n != 2 {
			t.Errorf("%d terms, want 2", n)
		}
	})
}

// slots returns what the fold leases to an agent.
func (r *rig) slots(agent string) int64 {
	r.t.Helper()
	for _, a := range r.view().Agents {
		if a.Agent == agent {
			return a.Slots
		}
	}
	return 0
}

// TestLeaderThatEndsIsFollowedAtOnce: it gives its election back.
func TestLeaderThatEndsIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t)
		a.elector()
		a.start()
		b, _ := a.beside()
		b.start()
		defer b.end()
		time.Sleep(time.Minute)
		wantLeader(t, a, b)
		a.end()
		time.Sleep(300 * time.Millisecond)
		wantLeader(t, b)
	})
}

// TestStandbysFileReplacesNothing: its file may be older than what is in force.
func TestStandbysFileReplacesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t)
		a.elector()
		a.start()
		b, _ := a.beside()
		b.opts.Config = config("a", "old")
		b.start()
		defer func() { b.end() }()
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.Contains(b.text.String(), "weir config push") {
			t.Errorf("the standby said %q, nothing of its other file", b.text)
		}
		a.end()
		time.Sleep(time.Second)
		wantLeader(t, b)
		b.restart()
		time.Sleep(3 * time.Second)
		wantLeader(t, b)
		if n := b.count(model.KindConfig); n != 1 {
			t.Errorf("%d configurations, want the first leader's alone", n)
		}
	})
}

// TestStandbyWithoutThePast is one that starts with no state on a log whose
// beginning was trimmed: it leads only when nobody comes who knows better.
func TestStandbyWithoutThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t)
		a.opts.Keep = 100
		a.elector()
		a.start()
		x := a.agent("x")
		for range 500 {
			x.send(ok())
			time.Sleep(10 * time.Millisecond)
		}
		b, _ := a.beside()
		b.start()
		defer b.end()
		time.Sleep(time.Second)
		wantLeader(t, a, b)
		a.end()
		time.Sleep(5 * time.Second)
		if b.status().Leads {
			t.Error("it led without the past within five seconds")
		}
		a.start()
		time.Sleep(5 * time.Second)
		wantLeader(t, a, b)
		a.end()
		time.Sleep(15 * time.Second)
		wantLeader(t, b)
		if n := b.count(model.KindRebase); n != 1 {
			t.Errorf("%d rebases, want one by the leader without the past", n)
		}
	})
}

// TestStandbyMendsNoLog starts with the store of another log: the log that
// somebody leads stays as it is.
func TestStandbyMendsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t)
		a.elector()
		a.start()
		defer a.end()
		foreign := newRig(t)
		foreign.start()
		for range 50 {
			foreign.agent("x").send(ok())
			time.Sleep(time.Second)
		}
		foreign.end()
		b, _ := a.beside()
		b.store = foreign.store
		before, err := a.log.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.start()
		time.Sleep(time.Minute)
		after, err := a.log.Info(t.Context())
		if err != nil || after.First != before.First || after.Created != before.Created {
			t.Errorf("the log was %+v and is %+v (%v)", before, after, err)
		}
		b.end()
		if !strings.Contains(b.text.String(), "move this one's store away") {
			t.Errorf("the standby said %q", b.text)
		}
	})
}

// TestLateTermOfAnOldLeader: what a leader sent before its election ended comes
// behind its follower's term. Who is elected asks for a higher one.
func TestLateTermOfAnOldLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRig(t)
		a.elector()
		a.start()
		defer a.end()
		time.Sleep(time.Second)
		late := &model.Lead{Term: 5, Controller: "old", Laws: model.LawVersion}
		if _, err := a.log.Append(t.Context(), events.Encode(nil, late)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := a.status(); !s.Leads || s.Term <= 5 {
			t.Errorf("status %+v, want leading beyond term 5", s)
		}
	})
}
