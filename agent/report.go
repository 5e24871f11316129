package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"weir/events"
	"weir/model"
)

const (
	// crowded is how many reports may wait before new ones are made fewer
	// and fuller: what cannot be sent in step needs not be built in step.
	crowded = 3
	// crowdedPace is the time between two reports then. A full report does
	// not wait for it.
	crowdedPace = 250 * model.Millisecond
	// fullReport is the attempts from which a report counts as full.
	fullReport = 100
	// leastSleep keeps the loop from spinning when the gate wants to be
	// asked again at once.
	leastSleep = model.Millisecond
	// writeTimeout bounds one try to send a report; the log may take seconds
	// to acknowledge one when its disk is busy.
	writeTimeout = 10 * time.Second
	// firstBackoff and lastBackoff bound the wait between two tries.
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// turn turns the gate when time passes and builds the reports that are due,
// until ctx ends.
func (c *Client) turn(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last model.Nanos
	for {
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		timer.Reset(c.turnOnce(&last).Duration())
	}
}

// turnOnce does what is due and returns how long to sleep. last is when the
// last report was built.
func (c *Client) turnOnce(last *model.Nanos) model.Nanos {
	for {
		waiting, _ := c.spool.count()
		now := c.now()
		c.mu.Lock()
		c.after(now)
		due := c.gate.ReportDue()
		if waiting >= crowded {
			due = max(due, *last+crowdedPace)
		}
		if due > now {
			c.armed = min(c.gate.NextWake(), due)
			sleep := max(c.armed-now, leastSleep)
			c.mu.Unlock()
			return sleep
		}
		c.gate.Report(now, &c.report)
		c.mu.Unlock()
		*last = now
		if len(c.report.Attempts) >= fullReport {
			*last -= crowdedPace
		}
		c.spoolReport(&c.report, now)
	}
}

func (c *Client) spoolReport(r *model.Attempts, now model.Nanos) {
	if c.cfg.Writer != nil {
		if err := c.spool.push(r, c.instant(now)); err != nil {
			c.cfg.Log.Error("summing up reports failed", "err", err)
		}
	}
	if r.Leaving {
		c.leave()
	}
}

// leave notes that the last report was built.
func (c *Client) leave() {
	select {
	case <-c.left:
	default:
		close(c.left)
	}
}

// summarize makes one summary of reports and earlier summaries.
func (c *Client) summarize(facts []model.Fact) *model.Summary {
	var s model.Summary
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate.Summarize(facts, &s)
	return &s
}

// send sends reports, one at a time and in order, until ctx ends.
func (c *Client) send(ctx context.Context) {
	backoff := firstBackoff
	for {
		data, err := c.spool.next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.cfg.Log.Error("a spooled report is lost", "err", err)
			c.spool.sent(true)
			continue
		}
		err = c.write(ctx, data)
		switch {
		case err == nil:
			if backoff > firstBackoff {
				c.cfg.Log.Info("reports reach the log again")
			}
			backoff = firstBackoff
			c.spool.sent(true)
			continue
		case ctx.Err() != nil:
			c.spool.sent(false)
			return
		case errors.Is(err, events.ErrTooLarge):
			c.cfg.Log.Error("a report is too large for the log and is dropped", "bytes", len(data))
			c.spool.sent(true)
			continue
		}
		if backoff == firstBackoff {
			c.cfg.Log.Warn("sending a report failed, will repeat", "err", err)
		}
		c.spool.sent(false)
		pause(ctx, time.Duration(float64(backoff)*(0.5+rand.Float64())))
		backoff = min(2*backoff, lastBackoff)
	}
}

func (c *Client) write(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.cfg.Writer.Write(ctx, data)
}
