package provider

import (
	"time"

	"weir/sim/incident"
)

const (
	minute = int64(time.Minute)
	day    = 24 * int64(time.Hour)
	// cells is in how many parts a sliding window forgets. A cell is forgotten
	// as a whole, once its last instant is a full window old, which takes one
	// more cell to remember.
	cells    = 600
	ringSize = cells + 1
)

// meter counts one limit. Amounts are requests or tokens.
//
// A token bucket holds level/period units and refills at limit per period;
// keeping the level multiplied by the period makes refill exact in integers.
// A fixed window counts from zero at each multiple of the period past phase. A
// sliding window keeps sums of 600 cells.
type meter struct {
	kind   incident.WindowKind
	limit  int64 // per period; negative: no limit
	burst  int64
	period int64
	phase  int64

	at     int64 // instant of the state below
	level  int64 // token bucket, units * period
	used   int64 // fixed and sliding, units in the window
	window int64 // fixed: number of the window; sliding: number of the newest cell
	ring   []int64
}

// periodOf is the time that a limit counts over.
func periodOf(r incident.Rate) int64 {
	if r.Per > 0 {
		return int64(r.Per)
	}
	return minute
}

// newMeter starts a limit with nothing used. phase is where fixed windows
// begin.
func newMeter(r incident.Rate, phase int64) meter {
	m := meter{period: periodOf(r), phase: phase, limit: incident.Unlimited}
	m.set(0, r)
	return m
}

// newDaily starts a per-day limit.
func newDaily(d incident.Daily, elapsed time.Duration) meter {
	m := meter{period: day, phase: day - int64(elapsed), kind: incident.FixedWindow, limit: d.Limit, used: d.Used}
	m.window = m.index(0)
	return m
}

// set changes the limit. What is used stays used: a bucket keeps its level as
// far as its new depth allows, and a limit that appears starts whole.
func (m *meter) set(now int64, r incident.Rate) {
	burst := r.Burst
	if burst < 0 {
		burst = max(0, r.Limit)
	}
	fresh := m.limit < 0 || m.kind != r.Window
	m.settle(now)
	m.kind, m.limit, m.burst = r.Window, r.Limit, burst
	if fresh {
		m.level, m.used, m.window, m.ring = m.burst*m.period, 0, m.index(now), nil
		if m.kind == incident.SlidingWindow {
			m.ring = make([]int64, ringSize)
		}
	}
	m.level = min(m.level, m.burst*m.period)
}

// setDaily changes a per-day limit; what the day has used stays used.
func (m *meter) setDaily(now int64, d incident.Daily) {
	m.settle(now)
	if m.limit < 0 {
		m.used, m.window = 0, m.index(now)
	}
	m.limit = d.Limit
}

// index numbers the window (fixed) or cell (sliding) that now lies in.
func (m *meter) index(now int64) int64 {
	if m.kind == incident.SlidingWindow {
		return now / (m.period / cells)
	}
	return (now - m.phase%m.period + m.period) / m.period
}

// settle brings the state to now.
func (m *meter) settle(now int64) {
	if m.limit < 0 || now <= m.at {
		m.at = max(m.at, now)
		return
	}
	switch m.kind {
	case incident.TokenBucket:
		full := m.burst * m.period
		missing := uint64(full) - uint64(m.level)
		if m.limit > 0 && uint64(now-m.at) > missing/uint64(m.limit) {
			m.level = full
		} else {
			m.level += (now - m.at) * m.limit
		}
	case incident.FixedWindow:
		if w := m.index(now); w != m.window {
			m.window, m.used = w, 0
		}
	case incident.SlidingWindow:
		m.slide(m.index(now))
	}
	m.at = now
}

// slide forgets the cells that left the window.
func (m *meter) slide(newest int64) {
	if newest-m.window >= ringSize {
		clear(m.ring)
		m.used, m.window = 0, newest
		return
	}
	for m.window < newest {
		m.window++
		cell := &m.ring[m.window%ringSize]
		m.used -= *cell
		*cell = 0
	}
}

// capacity is the most the meter lets through at once.
func (m *meter) capacity() int64 {
	if m.kind == incident.TokenBucket {
		return m.burst
	}
	return m.limit
}

// wait returns how long until cost fits: 0 for now, Never when it cannot.
func (m *meter) wait(now, cost int64) int64 {
	if m.limit < 0 {
		return 0
	}
	m.settle(now)
	if cost > m.capacity() {
		return Never
	}
	switch m.kind {
	case incident.TokenBucket:
		need := cost*m.period - m.level
		if need <= 0 {
			return 0
		}
		if m.limit == 0 {
			return Never
		}
		return (need-1)/m.limit + 1
	case incident.FixedWindow:
		if m.used+cost <= m.limit {
			return 0
		}
		return m.ends(now)
	case incident.SlidingWindow:
		return m.slideWait(now, cost)
	}
	return 0
}

// ends is the time until the fixed window does.
func (m *meter) ends(now int64) int64 {
	return m.period - (now-m.phase%m.period+m.period)%m.period
}

// slideWait is the time until enough cells have left the window.
func (m *meter) slideWait(now, cost int64) int64 {
	cell := m.period / cells
	over := m.used + cost - m.limit
	for back := int64(ringSize - 1); back >= 0 && over > 0; back-- {
		if n := m.window - back; n >= 0 {
			over -= m.ring[n%ringSize]
			if over <= 0 {
				return (n+ringSize)*cell - now
			}
		}
	}
	return 0
}

// take uses cost. Only a charged refusal uses more than there is, and only a
// bucket remembers that, as a debt of at most its depth.
func (m *meter) take(now, cost int64) {
	if m.limit < 0 {
		return
	}
	m.settle(now)
	switch m.kind {
	case incident.TokenBucket:
		m.level = max(m.level-cost*m.period, -m.burst*m.period)
	case incident.FixedWindow:
		m.used = min(m.used+cost, m.limit)
	case incident.SlidingWindow:
		cost = max(0, min(cost, m.limit-m.used))
		m.used += cost
		m.ring[m.window%ringSize] += cost
	}
}

// figure is the limit as headers show it.
func (m *meter) figure(now int64) Figure {
	if m.limit < 0 {
		return Figure{Limit: -1}
	}
	m.settle(now)
	f := Figure{Limit: m.limit, Remaining: max(0, m.limit-m.used)}
	switch m.kind {
	case incident.TokenBucket:
		f.Remaining = max(0, m.level/m.period)
		if m.limit > 0 {
			f.Reset = time.Duration((uint64(m.burst*m.period) - uint64(m.level)) / uint64(m.limit))
		}
	case incident.FixedWindow:
		f.Reset = time.Duration(m.ends(now))
	case incident.SlidingWindow:
		f.Reset = time.Duration(m.slideWait(now, m.limit))
	}
	return f
}
