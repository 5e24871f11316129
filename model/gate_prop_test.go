package model

import (
	"testing"

	"pgregory.net/rapid"
)

// TestGateProperties drives a gate with anything that can happen to it and
// checks after every step what must always hold. A twin with the same seed
// gets the same and must answer the same.
func TestGateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newGateMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"ask":     m.ask,
			"done":    m.done,
			"again":   m.doneAgain,
			"leave":   m.leave,
			"wait":    m.wait,
			"lease":   m.lease,
			"limits":  m.limits,
			"stale":   m.stale,
			"report":  m.report,
			"config":  m.configure,
			"mode":    m.mode,
			"neutral": m.neutral,
			"":        m.check,
		})
		m.drain(t)
	})
}

// TestGateShare checks at every admission that it keeps within what was
// granted: slots, and every budget of the channel. Probes and what is only
// observed are bound by neither.
func TestGateShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newGateMachine(t)
		watch := func(f func(*rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) {
				before := map[uint64]uint64{}
				for id, p := range m.running {
					before[id] = p.ID
				}
				f(t)
				m.check(t)
				bound, free := map[string]int64{}, map[string]int64{}
				for id, p := range m.running {
					switch {
					case before[id] == p.ID:
					case p.Probe != 0 || p.Observed:
						free[p.Channel]++
					default:
						bound[p.Channel]++
					}
				}
				for name := range bound {
					m.within(t, name, free[name])
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": watch(m.ask), "done": watch(m.done), "lease": watch(m.lease), "limits": watch(m.limits),
			"report": m.report, "wait": m.wait,
		})
	})
}

// within checks a channel on which something was just admitted.
func (m *gateMachine) within(t *rapid.T, name string, free int64) {
	c := m.g.byChannel[name]
	if used, share := c.used(m.now)-free, c.share(m.now, m.g.lost, m.g.met); used > share {
		t.Fatalf("%s: %d in flight or held, %d may", name, used, share)
	}
	if m.g.lost {
		return
	}
	if b := m.g.closed(m.now, c); b.cause != causeNone {
		t.Fatalf("%s: admitted though %s", name, b.cause)
	}
	for _, p := range c.pools {
		g, ok := m.granted[p.name]
		if !ok {
			continue
		}
		if g.Requests >= 0 && p.usedRequests-free > g.Requests {
			t.Fatalf("%s: %d requests started, %d granted", p.name, p.usedRequests, g.Requests)
		}
	}
}
