package controller

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/events"
	"weir/model"
)

const (
	// tellEvery is the least time between two broadcasts, and between two
	// rounds of leases: each costs the bus a delivery per agent. A cut does
	// not wait for it.
	tellEvery = 20 * time.Millisecond
	// leaseRound is how many leases are made at once, so that each is fresh
	// when it goes out; leaseLanes how many are sent at a time.
	leaseRound = 256
	leaseLanes = 8
)

// telling is what the fleet has not been told yet. What is told is always
// made from the newest state, so nothing queues up while the bus is away.
type telling struct {
	// term, config and full are owed. urgent is set when a broadcast must not
	// wait.
	term, config, full, urgent bool
	// changed are channels and leases agents with news.
	changed, leases map[string]struct{}

	broadcasting, leasing bool
	broadcasts            chan broadcast
	leased                chan leased
	// When the next broadcast and the next leases may go out.
	nextBroadcast, nextLeases time.Time

	announced uint64 // the term the bus knows from us
	pause     backoff
	failing   string // the last failure, empty after a success
}

// broadcast is one round of messages to everybody, made under the term of.
type broadcast struct {
	of      uint64
	term    *model.TermNotice
	config  *model.Config
	seq     uint64 // of config
	limits  *model.LimitSet
	full    bool
	changed map[string]struct{} // what limits holds
	err     error
}

// leased is the outcome of a round of leases, made under the term of.
type leased struct {
	of     uint64
	failed []string
	sent   int
	err    error
}

// add notes what a run of records asks for.
func (t *telling) add(fx *model.Effects) {
	for _, channel := range fx.Limits {
		t.changed[channel] = struct{}{}
	}
	for _, agent := range fx.Leases {
		t.leases[agent] = struct{}{}
	}
	t.urgent = t.urgent || fx.Now
	t.config = t.config || fx.Config
	t.term = t.term || fx.Term
}

// all notes that everybody must be told everything: a term begins.
func (t *telling) all(f *model.Fleet) {
	t.term, t.config, t.full, t.urgent = true, true, true, true
	for _, a := range f.View().Agents {
		t.leases[a.Agent] = struct{}{}
	}
}

// silence forgets what was to be told: another leader tells.
func (t *telling) silence() {
	t.term, t.config, t.full, t.urgent = false, false, false, false
	clear(t.changed)
	clear(t.leases)
}

// tellDue returns when something may be told, zero for nothing to tell.
func (l *Loop) tellDue(now time.Time) time.Time {
	if !l.leading.leads || l.leading.fenced {
		return time.Time{}
	}
	broadcast, leases := l.broadcastDue(now), l.leasesDue()
	if broadcast.IsZero() || !leases.IsZero() && leases.Before(broadcast) {
		return leases
	}
	return broadcast
}

func (l *Loop) broadcastDue(now time.Time) time.Time {
	t := &l.telling
	switch {
	case t.broadcasting:
		return time.Time{}
	case t.urgent && t.failing == "":
		return now
	case t.term || t.config || t.full || len(t.changed) > 0:
		return t.nextBroadcast
	}
	return time.Time{}
}

func (l *Loop) leasesDue() time.Time {
	t := &l.telling
	if t.leasing || len(t.leases) == 0 || t.announced != l.fleet.Term() {
		return time.Time{} // the term fences leases, so it goes first
	}
	return t.nextLeases
}

// tell begins to send what is due.
func (l *Loop) tell(ctx context.Context, now time.Time) {
	if !l.leading.leads || l.leading.fenced {
		return
	}
	if due := l.broadcastDue(now); !due.IsZero() && !now.Before(due) {
		l.broadcast(ctx, now)
	}
	if due := l.leasesDue(); !due.IsZero() && !now.Before(due) {
		l.lease(ctx, now)
	}
}

// broadcast makes one round of messages to everybody and sends it beside the
// fold.
func (l *Loop) broadcast(ctx context.Context, now time.Time) {
	t := &l.telling
	b := broadcast{of: l.fleet.Term(), full: t.full, changed: t.changed}
	if t.term || t.announced != l.fleet.Term() {
		b.term = &model.TermNotice{Term: b.of, Seq: l.position.Seq, Controller: l.name}
	}
	if t.config {
		b.config, b.seq = l.toldConfig()
	}
	switch {
	case t.full:
		b.limits = l.fleet.LimitSet(nil)
	case len(t.changed) > 0:
		b.limits = l.fleet.LimitSet(slices.Sorted(maps.Keys(t.changed)))
	}
	t.term, t.config, t.full, t.urgent, t.changed = false, false, false, false, map[string]struct{}{}
	t.broadcasting, t.nextBroadcast = true, now.Add(tellEvery)
	l.helpers.Go(func() {
		b.err = b.send(ctx, l.options.Outbox)
		t.broadcasts <- b
	})
}

// toldConfig returns a copy of the configuration in force: the fold writes
// into its own, also where it only encodes it.
func (l *Loop) toldConfig() (*model.Config, uint64) {
	config, seq := l.fleet.Config()
	copied, err := copyConfig(config)
	if err != nil {
		l.log.Error("the configuration in force cannot be told", slog.Any("error", err))
	}
	return copied, seq
}

// send sends the round in the order that receivers need: who leads, what the
// fleet is, how it stands.
func (b *broadcast) send(ctx context.Context, out events.Outbox) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if b.term != nil {
		if err := out.PutTerm(ctx, b.term); err != nil {
			return err
		}
	}
	if b.config != nil {
		if err := out.PutConfig(ctx, b.seq, b.config); err != nil {
			return err
		}
	}
	if b.limits != nil {
		return out.PutLimits(ctx, b.limits, b.full)
	}
	return nil
}

// told notes the outcome of a broadcast. What failed is owed again.
func (l *Loop) told(b broadcast) {
	t := &l.telling
	t.broadcasting = false
	if b.err == nil {
		t.pause, t.failing = backoff{}, ""
		if b.term != nil {
			t.announced = b.term.Term
			l.leading.step = 1
		}
		l.meters.broadcasts.Inc()
		return
	}
	t.term = t.term || b.term != nil
	t.config = t.config || b.config != nil
	t.full = t.full || b.full
	maps.Copy(t.changed, b.changed)
	t.nextBroadcast = time.Now().Add(t.pause.next())
	l.unsaid(b.of, b.err)
}

// unsaid notes a failure of the bus, for what was made under a term.
func (l *Loop) unsaid(of uint64, err error) {
	l.meters.outboxFailures.Inc()
	if l.telling.failing == "" {
		l.log.Warn("the fleet cannot be told, trying again with what is newest", slog.Any("error", err))
	}
	l.telling.failing = err.Error()
	if errors.Is(err, events.ErrConflict) && of == l.leading.term {
		l.leading.fence()
	}
}

// lease makes a round of leases and sends it beside the fold.
func (l *Loop) lease(ctx context.Context, now time.Time) {
	t := &l.telling
	var leases []*model.Lease
	for _, agent := range slices.Sorted(maps.Keys(t.leases)) {
		if len(leases) == leaseRound {
			break
		}
		delete(t.leases, agent)
		if lease := l.fleet.Lease(agent); lease != nil {
			leases = append(leases, lease)
		}
	}
	if len(leases) == 0 {
		return
	}
	t.leasing, t.nextLeases = true, now.Add(tellEvery)
	if len(t.leases) > 0 {
		t.nextLeases = now // more wait: go on as soon as these are out
	}
	of := l.fleet.Term()
	l.helpers.Go(func() {
		r := sendLeases(ctx, l.options.Outbox, leases)
		r.of = of
		t.leased <- r
	})
}

// sendLeases sends leases on a few lanes, and says which did not go out.
func sendLeases(ctx context.Context, out events.Outbox, leases []*model.Lease) (r leased) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var mu sync.Mutex
	var lanes sync.WaitGroup
	next := 0
	take := func() *model.Lease {
		mu.Lock()
		defer mu.Unlock()
		if next == len(leases) {
			return nil
		}
		next++
		return leases[next-1]
	}
	for range min(leaseLanes, len(leases)) {
		lanes.Go(func() {
			for lease := take(); lease != nil; lease = take() {
				err := out.PutLease(ctx, lease)
				mu.Lock()
				if err != nil {
					r.failed, r.err = append(r.failed, lease.Agent), err
				} else {
					r.sent++
				}
				mu.Unlock()
			}
		})
	}
	lanes.Wait()
	return r
}

// toldLeases notes the outcome of a round of leases.
func (l *Loop) toldLeases(r leased) {
	t := &l.telling
	t.leasing = false
	l.meters.leases.Add(r.sent)
	if r.err == nil {
		return
	}
	if l.leading.leads {
		for _, agent := range r.failed {
			t.leases[agent] = struct{}{}
		}
	}
	t.nextLeases = time.Now().Add(t.pause.next())
	l.unsaid(r.of, r.err)
}
