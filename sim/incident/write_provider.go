package incident

import (
	"slices"
	"time"
)

func (w *writer) provider(p *Provider) {
	w.line("  - name: %s", name(p.Name))
	plain := newLaw()
	w.keys(p.Law.entries(&plain, 0, true))
	if len(p.Changes) == 0 {
		return
	}
	w.line("    changes:")
	before := &p.Law
	for i := range p.Changes {
		c := &p.Changes[i]
		var m flow
		m.add("at", c.At)
		m.span("over", c.Over, 0)
		m.add("set", c.To.entries(before, c.Moved, false))
		w.line("      - %s", m)
		before = &c.To
	}
}

// lawWriter writes what a law says beyond another.
type lawWriter struct {
	from, to *Law
	was, is  [NumNumbers]*int64
	moved    uint64
	first    bool // not a change
}

// entries returns the keys of a law that differ from those of another, or that
// moved says are set.
func (l *Law) entries(from *Law, moved uint64, first bool) flow {
	w := &lawWriter{was: from.Numbers(), is: l.Numbers(), moved: moved, first: first, from: from, to: l}
	var top flow
	w.count(&top, "concurrency", 0)
	w.count(&top, "queue", 1)
	w.rate(&top, "rpm", 3, &from.RPM, &l.RPM)
	w.rate(&top, "tpm", 5, &from.TPM, &l.TPM)
	w.rate(&top, "input_tpm", 7, &from.InputTPM, &l.InputTPM)
	w.rate(&top, "output_tpm", 9, &from.OutputTPM, &l.OutputTPM)
	w.daily(&top, "requests_per_day", 11, from.RequestsPerDay.Used, l.RequestsPerDay.Used)
	w.daily(&top, "tokens_per_day", 12, from.TokensPerDay.Used, l.TokensPerDay.Used)
	if first {
		top.span("day_elapsed", l.DayElapsed, 0)
	}
	w.service(&top)
	if l.AbandonedWork != from.AbandonedWork {
		top.add("abandoned_work", l.AbandonedWork)
	}
	var m flow
	w.count(&m, "concurrency", 2)
	w.child(&top, "background", m)
	w.noise(&top)
	w.refusal(&top)
	w.special(&top)
	w.ban(&top)
	return top
}

// set reports whether the k-th number is to be written.
func (w *lawWriter) set(k int) bool { return *w.was[k] != *w.is[k] || w.moved>>k&1 != 0 }

func (w *lawWriter) count(m *flow, key string, k int) {
	if w.set(k) {
		m.add(key, *w.is[k])
	}
}

func (w *lawWriter) span(m *flow, key string, k int) {
	if w.set(k) {
		m.add(key, time.Duration(*w.is[k]))
	}
}

func (w *lawWriter) ratio(m *flow, key string, k int) {
	if w.set(k) {
		m.add(key, ratio(*w.is[k]))
	}
}

// child adds a mapping that has something to say.
func (w *lawWriter) child(top *flow, key string, m flow) {
	if len(m) > 0 {
		top.add(key, m)
	}
}

func (w *lawWriter) rate(top *flow, key string, k int, from, to *Rate) {
	var m flow
	w.count(&m, "limit", k)
	w.count(&m, "burst", k+1)
	m.word("window", to.Window, from.Window)
	m.word("charge", to.Charge, from.Charge)
	if w.first {
		m.span("per", to.Per, 0)
	}
	w.child(top, key, m)
}

func (w *lawWriter) daily(top *flow, key string, k int, usedFrom, usedTo int64) {
	var m flow
	w.count(&m, "limit", k)
	m.count("used", usedTo, usedFrom)
	w.child(top, key, m)
}

func (w *lawWriter) service(top *flow) {
	var m flow
	w.span(&m, "base", 13)
	w.count(&m, "prefill_tokens_per_s", 14)
	w.count(&m, "output_tokens_per_s", 15)
	w.ratio(&m, "cv", 16)
	w.child(top, "service", m)
	m = nil
	w.ratio(&m, "from", 17)
	w.ratio(&m, "factor", 18)
	w.child(top, "slowdown", m)
}

func (w *lawWriter) noise(top *flow) {
	var m flow
	w.ratio(&m, "error_rate", 19)
	m.count("status", w.to.Noise.Status, w.from.Noise.Status)
	w.child(top, "noise", m)
}

func (w *lawWriter) refusal(top *flow) {
	from, to := &w.from.Refusal, &w.to.Refusal
	var m flow
	m.count("status", to.Status, from.Status)
	m.text("code", to.Code, from.Code)
	m.word("shape", to.Shape, from.Shape)
	if to.Hint != from.Hint || w.set(21) {
		m.add("retry_after", to.hint())
	}
	w.span(&m, "delay", 20)
	if to.Headers != from.Headers {
		m.add("headers", to.Headers)
	}
	if to.Charged != from.Charged {
		m.add("charged", to.Charged)
	}
	if to.HoldsSlot != from.HoldsSlot {
		m.add("holds_slot", to.HoldsSlot)
	}
	w.child(top, "refusal", m)
}

// hint is what retry_after says.
func (r *Refusal) hint() string {
	if r.Hint == HintFixed {
		return r.HintFor.String()
	}
	return string(r.Hint)
}

// special writes every refusal of one reason in full.
func (w *lawWriter) special(top *flow) {
	var all flow
	for _, s := range w.to.Special {
		if !w.first && w.said(s) {
			continue
		}
		var m flow
		m.count("status", s.Refusal.Status, 0)
		m.text("code", s.Refusal.Code, "")
		m.add("shape", s.Refusal.Shape)
		m.add("retry_after", s.Refusal.hint())
		m.add("delay", s.Refusal.Delay)
		m.add("headers", s.Refusal.Headers)
		m.add("charged", s.Refusal.Charged)
		m.add("holds_slot", s.Refusal.HoldsSlot)
		all.add(string(s.Reason), m)
	}
	w.child(top, "refusals", all)
}

// said reports whether the law before has the same special refusal.
func (w *lawWriter) said(s SpecialRefusal) bool {
	return slices.Contains(w.from.Special, s)
}

func (w *lawWriter) ban(top *flow) {
	var m flow
	w.count(&m, "refusals", 22)
	w.span(&m, "in", 23)
	w.span(&m, "for", 24)
	w.ratio(&m, "widen", 25)
	w.span(&m, "most", 26)
	w.span(&m, "forget", 27)
	w.child(top, "ban", m)
}
