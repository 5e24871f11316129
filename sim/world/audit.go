package world

import (
	"errors"
	"fmt"
)

// audit counts what the world did, so that a run can be checked against the
// providers' own books at its end.
type audit struct {
	twice   int64   // ends of requests and attempts that had ended before
	tallies []tally // by provider
}

// tally is what became of the attempts sent to one provider.
type tally struct {
	sent, ok, failed, refused int64
	// left were given up while they ran or waited, crossed when their answer
	// was on its way already, away when a refusal was.
	left, crossed, away int64
}

// check returns what does not add up in a run that is over: a request or an
// attempt that ended twice or got lost, or a provider whose books differ.
func (w *world) check() error {
	var faults []error
	found := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if n := w.audit.twice; n != 0 {
		found("%d requests or attempts ended twice", n)
	}
	wanted, ended := w.book.second.Wanted, w.book.second.Completed+w.book.second.Failed
	for i := range w.book.seconds {
		s := &w.book.seconds[i]
		wanted, ended = wanted+s.Wanted, ended+s.Completed+s.Failed
	}
	for i := range w.requests.used {
		if w.requests.at(i).alive {
			ended++
		}
	}
	if wanted != ended {
		found("%d requests were wanted, %d ended or wait", wanted, ended)
	}
	running, coming := make([]int64, len(w.providers)), make([]int64, len(w.providers))
	for i := range w.attempts.used {
		switch a := w.attempts.at(i); {
		case !a.alive:
		case a.ticket != 0:
			running[a.service]++
		default:
			coming[a.service]++
		}
	}
	for i := range w.providers {
		name := w.inc.Providers[i].Name
		b, t := w.providers[i].truth.Books(), &w.audit.tallies[i]
		if t.sent != b.Offered {
			found("provider %s: %d attempts sent, %d in its books", name, t.sent, b.Offered)
		}
		if mine, its := t.refused+t.away+coming[i], b.Refused.Total(); mine != its {
			found("provider %s: %d attempts refused, %d in its books", name, mine, its)
		}
		if t.left != b.Abandoned {
			found("provider %s: %d attempts given up, %d in its books", name, t.left, b.Abandoned)
		}
		if mine, its := t.ok+t.failed+t.crossed+running[i], b.Served+b.Failed+b.Running+b.Waiting; mine != its {
			found("provider %s: %d attempts answered or in flight, %d in its books", name, mine, its)
		}
	}
	if folded, settled := w.folded(), w.settled(); folded > settled {
		found("%d attempts settled, %d folded", settled, folded)
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%s under %s, seed %d, does not add up: %w", w.inc.Name, w.cfg.Policy, w.cfg.Seed, errors.Join(faults...))
}

// settled is attempts that ended at all providers.
func (w *world) settled() (n int64) {
	for i := range w.audit.tallies {
		t := &w.audit.tallies[i]
		n += t.ok + t.failed + t.refused + t.left + t.crossed + t.away
	}
	return n
}

// folded is attempts that the folds have counted.
func (w *world) folded() (n int64) {
	for _, c := range w.controllers {
		v := c.fleet.View()
		for i := range v.Channels {
			for _, k := range v.Channels[i].Counts {
				n += int64(k)
			}
		}
	}
	return n
}
