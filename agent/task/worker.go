package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"weir/events"
	"weir/events/natslog"
)

// worker works on one item that was given to this agent.
type worker struct {
	*room
	calls context.Context // ends when the agent must
	got   *natslog.Delivery
	turn  func() // gives back the place among those that the gate has not let through
	item  *item
	name  string
	job   *job
	st    status // as it is kept
	mine  bool   // st is this worker's claim
}

// verdict is what becomes of a delivery.
type verdict struct {
	over  bool          // nobody shall be given it again
	drop  bool          // its request is not needed any more
	after time.Duration // else, when somebody shall be
}

const (
	// orphanTimes is how often an item whose task is not there is given out
	// before it surely gets none: a task is written within twice busWithin of
	// its items, and no two times are closer than busPause. Its age would
	// say so too, but by a clock that may be wrong.
	orphanTimes = 120
	// takenFor is the wait while another agent has the item.
	takenFor = 3 * time.Second
	// unreadFor is the wait when a record is not of this version.
	unreadFor = time.Minute
)

func itemName(uid string, n int) string { return fmt.Sprintf("%s %d", uid, n) }

// settle tells the queue what becomes of the item. What is not heard there is
// given out again, and then found to be done.
func (w *worker) settle(v verdict) {
	ctx, cancel := context.WithTimeout(context.Background(), busWithin)
	defer cancel()
	if v.drop {
		_ = w.keep.Drop(ctx, w.got.Key, w.got.Seq)
	}
	if v.over || v.drop {
		_ = w.got.Done()
		return
	}
	_ = w.got.Later(v.after)
}

// run looks what the item has come to so far and, where a call is due, makes it.
func (w *worker) run(ctx context.Context) verdict {
	if wait := w.blockedFor(); wait > 0 {
		return verdict{after: wait}
	}
	if v, due := w.look(ctx); !due {
		return v
	}
	return w.call(ctx)
}

// look reads the task and the item's state; due is set when a call is.
func (w *worker) look(ctx context.Context) (v verdict, due bool) {
	bus, cancel := context.WithTimeout(ctx, busWithin)
	defer cancel()
	j, _, err := w.room.job(bus, w.item.Key)
	switch {
	case errors.Is(err, events.ErrNotFound):
		if w.got.Times < orphanTimes {
			return verdict{after: time.Second}, false
		}
		return verdict{drop: true}, false
	case errors.Is(err, errRecord):
		return verdict{after: unreadFor}, false
	case err != nil:
		return verdict{after: busPause}, false
	case j.UID != w.item.UID:
		return verdict{drop: true}, false
	}
	w.job = j
	s, err := w.state(bus, j.UID, w.item.N)
	switch {
	case errors.Is(err, errRecord):
		return verdict{after: unreadFor}, false
	case err != nil:
		return verdict{after: busPause}, false
	}
	w.st = s
	if err := w.keep.SetClock(bus); err != nil {
		return verdict{after: busPause}, false
	}
	return w.judge(ctx, w.keep.Now())
}

// judge decides whether a call is due.
func (w *worker) judge(ctx context.Context, now time.Time) (v verdict, due bool) {
	s := &w.st
	if s.Round < w.item.Round {
		*s = status{Round: w.item.Round, Repeated: s.Repeated, seq: s.seq}
	}
	switch {
	case s.Round > w.item.Round, s.State.ended():
		return verdict{over: true, drop: s.State != Failed && s.Round == w.item.Round}, false
	case s.State == Running && s.Agent == w.keep.Agent() && s.Boot == w.boot:
		// An own claim whose writing seemed to have failed: nothing was sent.
	case s.State == Running && !w.gone(ctx, s):
		return verdict{after: takenFor}, false
	case s.State == Running:
		s.Broken = true
	}
	// The server's clock, by which it was put off, may have been set back.
	switch wait := min(instant(s.Until).Sub(now), 2*mostWait); {
	case w.job.Ended != 0:
		return w.end(Canceled, "canceled by the client"), false
	case !now.Before(instant(w.job.Expires)):
		return w.end(Expired, "the task's age is reached"), false
	case s.State == Waiting && wait > 0:
		return verdict{after: wait}, false
	}
	return verdict{}, true
}

// end writes a last state without an answer.
func (w *worker) end(s State, reason string) verdict {
	next := w.next(s)
	next.Reason = reason
	if err := w.write(next); err != nil {
		return verdict{after: busPause}
	}
	w.ended[s].Inc()
	w.news("done", w.item.UID)
	return verdict{drop: true}
}

// next is the state that follows the present one.
func (w *worker) next(s State) status {
	return status{
		V: recordVersion, State: s, Round: w.item.Round, Agent: w.keep.Agent(), Boot: w.boot, At: w.keep.Now().UnixNano(),
		Tries: w.st.Tries, Waits: w.st.Waits, Repeated: w.st.Repeated, Broken: w.st.Broken, seq: w.st.seq,
	}
}

// write writes a state over the present one, once.
func (w *worker) write(next status) error {
	ctx, cancel := context.WithTimeout(context.Background(), busWithin)
	defer cancel()
	seq, err := w.keep.Swap(ctx, stateKey(w.item.UID, w.item.N), encode(next), w.st.seq)
	if err != nil {
		return err
	}
	next.seq = seq
	w.st = next
	return nil
}

// claim takes the item for this agent: from now on a call may have been made.
func (w *worker) claim() error {
	w.turn()
	next := w.next(Running)
	again := next.Broken
	if again {
		next.Repeated++
		next.Broken = false
	}
	if err := w.write(next); err != nil {
		return fmt.Errorf("claim item: %w", err)
	}
	w.mine = true
	if again {
		w.repeats.Inc()
	}
	return nil
}

// putOff writes that the item waits, and gives it back until then. Where
// nothing was claimed, the queue alone knows.
func (w *worker) putOff(wait time.Duration, class, reason string, tried, broken bool) verdict {
	next := w.next(Waiting)
	next.Until, next.Class, next.Reason = w.keep.Now().Add(wait).UnixNano(), class, reason
	next.Waits++
	next.Broken = next.Broken || broken
	if tried {
		next.Tries++
	}
	v := verdict{after: wait}
	if err := w.persist(next); err != nil {
		return verdict{after: takenFor} // whoever is given it sees whose it is
	}
	w.news("waits", w.item.UID)
	return v
}

// persist writes a state until it is written, or another has taken the item,
// or the agent must end.
func (w *worker) persist(next status) error {
	return w.insist(func() error {
		err := w.write(next)
		if errors.Is(err, events.ErrConflict) {
			return w.evicted(next, err)
		}
		return err
	})
}

// lastWords is how long a step is repeated once the agent must end.
const lastWords = 2 * time.Second

// insist repeats a step at the bus until it is done, or in vain for good, or
// the agent must end.
func (w *worker) insist(step func() error) error {
	var stop time.Time
	for {
		err := step()
		if err == nil || errors.Is(err, errRecord) || errors.Is(err, events.ErrConflict) {
			return err
		}
		if w.calls.Err() != nil {
			if now := time.Now(); stop.IsZero() {
				stop = now.Add(lastWords)
			} else if now.After(stop) {
				return err
			}
		}
		time.Sleep(busPause)
	}
}

// evicted writes a state whose predecessor is not there any more: a full store
// lets go of the oldest. conflict is returned when it is there.
func (w *worker) evicted(next status, conflict error) error {
	ctx, cancel := context.WithTimeout(context.Background(), busWithin)
	defer cancel()
	s, err := w.state(ctx, w.item.UID, w.item.N)
	if err != nil || s.seq != 0 {
		return conflict
	}
	w.st.seq = 0
	return w.write(next)
}

// silence is how long an agent was asked in vain.
type silence struct{ since time.Time }

const (
	// goneAfter is how long the server must have known of nobody of an
	// agent's name before its claims are taken for left behind: a living
	// agent connects again within a second of the server's return.
	goneAfter = 8 * time.Second
	// maxSilent bounds the agents that are asked for, maxBlocked the routes
	// that are known to be shut.
	maxSilent  = 1000
	maxBlocked = 1000
)

// gone reports whether the agent with a claim has surely ended, or does not
// have the item.
func (w *worker) gone(ctx context.Context, s *status) bool {
	if s.Agent == w.keep.Agent() {
		return true // of an earlier boot: nobody else has this name
	}
	answer, err := w.keep.Ask(ctx, s.Agent, w.name+" "+s.Boot)
	now := time.Now()
	steady := w.keep.Steady(now)
	who := s.Agent + " " + s.Boot
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(err, natslog.ErrSilent) {
		delete(w.silent, who)
		return err == nil && answer != "yes"
	}
	first, ok := w.silent[who]
	if !ok || first.since.Before(steady) {
		if len(w.silent) >= maxSilent {
			clear(w.silent)
		}
		w.silent[who] = silence{since: now}
		return false
	}
	return now.Sub(first.since) >= goneAfter
}

// answer says whether this process has an item in hand.
func (d *room) answer(question string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.running {
		if question == name+" "+d.boot {
			return "yes"
		}
	}
	return "no"
}

// place is the tenant and route whose calls are refused together.
func (w *worker) place() string { return w.item.Tenant + " " + w.item.Route }

// blockedFor returns how long nothing of the item's place need be tried.
func (w *worker) blockedFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := time.Until(w.blocked[w.place()])
	if wait <= 0 {
		delete(w.blocked, w.place())
		return 0
	}
	return wait + rand.N(wait/4+time.Second)
}

// block keeps the items of the same place back for a while.
func (w *worker) block(wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.blocked) >= maxBlocked {
		clear(w.blocked)
	}
	w.blocked[w.place()] = time.Now().Add(wait)
}
