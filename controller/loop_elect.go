package controller

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"weir/controller/store"
	"weir/events"
)

const (
	// renewEvery is how often a leader renews its election, and contendEvery
	// how often another tries to be elected: what a failover takes beyond the
	// rest of the dead leader's time.
	renewEvery   = 500 * time.Millisecond
	contendEvery = 200 * time.Millisecond
	// electionSlack ends an election by this process's clock before it ends
	// for the others.
	electionSlack = 100 * time.Millisecond
	// baseless is how long a controller that lacks the state before the log's
	// beginning waits for one that has it.
	baseless = 10 * time.Second
)

// electing is this process's part in the election of a leader. The loop
// itself renews it, so that one that hangs is followed by another.
type electing struct {
	until   time.Time // elected until then
	busy    bool
	at      time.Time // when to campaign next
	free    time.Time // since when nobody else was found elected
	heeded  bool      // another was found elected once
	warned  bool
	results chan campaigned
	// lacks is set while the fold misses entries that the log held, until a
	// rebase: another controller may have them.
	lacks bool
}

// campaigned is the outcome of a campaign that began at.
type campaigned struct {
	at   time.Time
	held time.Duration
	err  error
}

// elected reports whether this process may lead. Without an election everyone
// may who was not followed by another.
func (l *Loop) elected() bool {
	return l.options.Election == nil || time.Now().Before(l.electing.until)
}

// campaignDue returns when to campaign, zero for not before something else
// happens.
func (l *Loop) campaignDue() time.Time {
	e := &l.electing
	if l.options.Election == nil || e.busy || !l.reading.caughtUp {
		return time.Time{}
	}
	return e.at
}

// electionEnd returns when a leader must have renewed its election, zero when
// this one does not lead.
func (l *Loop) electionEnd() time.Time {
	if l.options.Election == nil || !l.leading.leads {
		return time.Time{}
	}
	return l.electing.until
}

// campaign tries to be elected, or to stay it, when it is time.
func (l *Loop) campaign(ctx context.Context, now time.Time) {
	if l.leading.leads && !l.elected() {
		l.yield("it could not be renewed in time")
	}
	if due := l.campaignDue(); due.IsZero() || now.Before(due) {
		return
	}
	l.electing.busy = true
	l.helpers.Go(func() {
		c := campaigned{at: now}
		c.held, c.err = l.options.Election.Campaign(ctx)
		l.electing.results <- c
	})
}

// campaigned acts on the outcome of a campaign.
func (l *Loop) campaigned(c campaigned) {
	e := &l.electing
	e.busy = false
	switch {
	case c.err == nil:
		l.won(c)
	case errors.Is(c.err, events.ErrConflict):
		if l.leading.leads {
			l.yield(c.err.Error())
		}
		e.until, e.free, e.warned = time.Time{}, time.Now(), false
		e.at = time.Now().Add(contendEvery)
		l.heed()
	default:
		if !e.warned {
			l.log.Warn("no leader can be elected, trying again", slog.Any("error", c.err))
		}
		e.warned = true
		e.at = time.Now().Add(contendEvery)
	}
}

// heed keeps the file of a controller that finds another leading from
// replacing, once it leads itself, a configuration that may be newer.
func (l *Loop) heed() {
	folded, seq := l.fleet.Config()
	if l.electing.heeded || l.options.Config == nil || seq == 0 {
		return
	}
	l.electing.heeded, l.leading.configured = true, true
	encoded := events.Encode(nil, l.options.Config)
	if !bytes.Equal(encoded, events.Encode(nil, folded)) {
		l.log.Warn("another controller leads, and its fleet's configuration is not this one's file: put that in force with weir config push")
	}
	if sum := store.Checksum(encoded); sum != l.position.File {
		l.position.File = sum
		l.storing.changed(time.Now())
	}
}

// won notes an election. Who lacks entries that the log held gives it back for
// as long as another may come that does not.
func (l *Loop) won(c campaigned) {
	e := &l.electing
	if e.lacks && time.Since(e.free) < baseless {
		e.at = time.Now().Add(contendEvery)
		l.resign()
		return
	}
	was := l.elected()
	e.until, e.at, e.warned = c.at.Add(c.held-electionSlack), c.at.Add(renewEvery), false
	if !was {
		l.log.Info("elected to lead", slog.Uint64("seq", l.position.Seq))
		l.leading.standby, l.leading.after = false, time.Time{}
	}
}

// yield ends this process's leading when its election ended.
func (l *Loop) yield(why string) {
	l.leading.term, l.leading.leads, l.leading.standby = 0, false, true
	l.telling.silence()
	l.log.Warn("election ended, standing by", slog.String("why", why))
}

// resign lets another lead at once when this process ends in order.
func (l *Loop) resign() {
	if l.options.Election == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	if err := l.options.Election.Resign(ctx); err != nil {
		l.log.Warn("election cannot be given back, another leads when it ends", slog.Any("error", err))
	}
}

// errNotElected keeps a controller that starts from mending a log that another
// one leads.
var errNotElected = errors.New("the log does not fit the stored state, and another controller leads: if it stays so, move this one's store away")

// mayMend returns nil when a controller that starts may change the log.
func (l *Loop) mayMend(ctx context.Context) error {
	if l.options.Election == nil {
		return nil
	}
	now := time.Now()
	held, err := l.options.Election.Campaign(ctx)
	if errors.Is(err, events.ErrConflict) {
		return errNotElected
	}
	if err == nil {
		l.electing.until = now.Add(held - electionSlack)
	}
	return err
}
