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
	// crowdedPace is the time between two reports then, for each that is too
	// many, up to crowdedMost: in that time a busy agent's attempts still fit
	// into the gate. After a full report the next does not wait.
	crowdedPace = 250 * model.Millisecond
	crowdedMost = 2 * model.Second
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
	for {
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		timer.Reset(c.turnOnce().Duration())
	}
}

// turnOnce does what is due and returns how long to sleep.
func (c *Client) turnOnce() model.Nanos {
	for {
		waiting, _ := c.spool.count()
		now := c.now()
		c.mu.Lock()
		c.pace = 0
		if waiting >= crowded {
			c.pace = c.built + min(model.Nanos(waiting-crowded+1)*crowdedPace, crowdedMost)
		}
		c.deliver(now)
		if next := c.next(); c.reportDue() > now {
			c.armed = next
			c.mu.Unlock()
			return max(next-now, leastSleep)
		}
		c.gate.Report(now, &c.report)
		c.mu.Unlock()
		c.built = now
		if len(c.report.Attempts) >= fullReport {
			c.built -= crowdedMost
		}
		c.spoolReport(&c.report, now)
	}
}

// reportDue is when the next report is to be built: when the gate wants it,
// but not while too many wait to be sent. c.mu is held.
func (c *Client) reportDue() model.Nanos { return max(c.gate.ReportDue(), c.pace) }

// next is when the loop is to turn the gate. c.mu is held.
func (c *Client) next() model.Nanos { return min(c.gate.NextWake(), c.reportDue()) }

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
