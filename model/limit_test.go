package model

import (
	"fmt"
	"testing"
)

// meter is a provider's limit of requests a minute, as a bucket of some depth
// or as windows of some length.
type meter struct {
	limit  int64
	window Nanos // 0 for a bucket
	slides bool
	depth  float64
	level  float64
	at     Nanos
	taken  []Nanos
}

func (m *meter) take(now Nanos) bool {
	per := float64(m.limit) / float64(Minute)
	if m.window == 0 {
		m.level = min(m.level+per*float64(now-m.at), m.depth)
		m.at = now
		if m.level < 1 {
			return false
		}
		m.level--
		return true
	}
	from := now - m.window
	if !m.slides {
		from = now/m.window*m.window - 1
	}
	for len(m.taken) > 0 && m.taken[0] <= from {
		m.taken = m.taken[1:]
	}
	if float64(len(m.taken)) >= per*float64(m.window) {
		return false
	}
	m.taken = append(m.taken, now)
	return true
}

// TestLimitIsFoundWhateverWindow holds that a limit that nobody told is used
// well, and hardly run into, whatever way it is counted. What is missing most is
// in long windows of few calls, where one clump comes back as the next.
func TestLimitIsFoundWhateverWindow(t *testing.T) {
	for _, limit := range []int64{120, 174, 250, 400, 600, 1000, 1800, 3000} {
		for _, share := range []float64{0.05, 0.1, 0.2, 0.35, 0.5} {
			m := &meter{limit: limit, at: Hour, depth: max(float64(limit)*share, 4)}
			m.level = m.depth
			findLimit(t, m, fmt.Sprintf("%d a minute, a bucket of %.0f", limit, m.depth))
		}
		for _, window := range []Nanos{10, 13, 20, 29, 30, 41, 50, 59, 60} {
			window *= Second
			findLimit(t, &meter{limit: limit, at: Hour, slides: true, window: window}, fmt.Sprintf("%d a minute, over any %s", limit, window))
			findLimit(t, &meter{limit: limit, at: Hour, window: window}, fmt.Sprintf("%d a minute, in windows of %s", limit, window))
		}
	}
}

// findLimit uses a limit that nobody told for ten minutes, and holds how well
// in the last five.
func findLimit(t *testing.T, m *meter, what string) {
	t.Helper()
	par := DefaultParams()
	p := &pool{name: "channel/m", at: Hour}
	var used, taken, refused int64
	for now := Hour; now < Hour+10*Minute; now += 20 * Millisecond {
		p.report("a", &PoolReport{UsedRequests: used, WaitingRequests: 100}, now, 1, false)
		if p.next <= now {
			p.pass(&par, now, 1, func(string) {})
		}
		g := p.grant("a")
		for range 3 {
			if now < p.hold.until || p.limited() && used >= g.requests {
				break
			}
			used++
			late := now > Hour+5*Minute
			if m.take(now) {
				p.hold.succeeded(now)
				if late {
					taken++
				}
				continue
			}
			if late {
				refused++
			}
			p.started(-1, 0)
			p.hold.refused(&par, now, now, 0, -1, p.requests.Started)
			if !p.hold.trial {
				p.requests.refused(&par, now, 3*m.limit)
			}
			p.next = 0
		}
	}
	if most := 5 * m.limit; taken < most*75/100 || refused > 5+taken*3/100 {
		t.Errorf("%s: %d of %d were let through in five minutes, %d refused\n%+v", what, taken, most, refused, p)
	}
}

func TestLimitKnowsTheLeast(t *testing.T) {
	par := DefaultParams()
	for _, c := range []struct {
		l    limit
		want int64
		from string
	}{
		{limit{}, 0, ""},
		{limit{Told: 100}, 100, "told"},
		{limit{Told: 100, Hinted: 60}, 60, "hinted"},
		{limit{Told: 100, Hinted: 60, Learned: 50}, 50, "learned"},
		{limit{Hinted: 60, Learned: 80}, 60, "hinted"},
		{limit{Learned: 1000, Grown: 10 * Second}, 1030, "learned"},
		{limit{Learned: 1000, Grown: 240 * Second}, 2720, "learned"},
		{limit{Learned: maxRate, Grown: 100 * Hour}, maxRate, "learned"},
	} {
		if got := c.l.known(&par); got != c.want || c.l.source(&par) != c.from {
			t.Errorf("%+v: %d %q, want %d %q", c.l, got, c.l.source(&par), c.want, c.from)
		}
	}
}

func TestLimitRefused(t *testing.T) {
	par := DefaultParams()
	l := limit{}
	l.refused(&par, Minute, 900)
	if l.Learned != 900 || l.Since != Minute {
		t.Fatalf("after the first refusal %+v", l)
	}
	l.Started, l.Busy = 100, 10*Second
	l.refused(&par, Minute+10*Second, 0)
	if l.Learned != 630 {
		t.Errorf("one measurement of 600 leaves %d of 900, want no less than 0.7", l.Learned)
	}
	l.Started, l.Busy = 100, 10*Second
	l.refused(&par, Minute+20*Second, 0)
	if l.Learned != 600 {
		t.Errorf("the next leaves %d, want 600", l.Learned)
	}
	l.Started = 100
	l.refused(&par, 2*Minute, 0)
	if l.Learned != 570 || l.Share != One/2 {
		t.Errorf("a refusal while nobody waited leaves %d and %d of the depth, want 570 and half", l.Learned, l.Share)
	}
	l.forget(&par, 2*Minute+par.LearnForget+1)
	if l.known(&par) != 0 {
		t.Errorf("after an hour %d is known", l.known(&par))
	}
}

// TestLimitGetsSure holds that a pace which was measured again and again is
// tested less often, that a climb which was refuted leaves what was measured, and
// that half a hold counts as time.
func TestLimitGetsSure(t *testing.T) {
	par := DefaultParams()
	l := limit{Learned: 600, Since: Minute}
	now := Minute
	meet := func(span, held Nanos, started int64) {
		now += span
		l.Started, l.Busy, l.Held = started, span, held
		l.refused(&par, now, 0)
	}
	grown := func() int64 {
		c := l
		c.Grown = 40 * Second
		return c.climbed(&par) - l.Learned
	}
	fresh := grown()
	for range 2 * sureMost {
		meet(Minute, 0, 600)
	}
	if got := grown(); l.Sure != sureMost || got <= 0 || got > fresh/4 {
		t.Errorf("a pace measured %d times climbs by %d, one measured once by %d", 2*sureMost, got, fresh)
	}
	before := l.Learned
	now += 10 * Minute
	l.Grown = 2 * Minute
	l.refused(&par, now, 0)
	if l.Learned != before || l.Sure != sureMost {
		t.Errorf("a refuted climb leaves %d of %d, sure %d", l.Learned, before, l.Sure)
	}
	meet(10*Second, 0, 50)
	if l.Sure != 0 || l.Learned >= 500 {
		t.Errorf("half the pace leaves %d, sure %d", l.Learned, l.Sure)
	}
	l = limit{Learned: 700, Since: now}
	meet(12*Second, 4*Second, 100)
	if l.Learned != 600 {
		t.Errorf("100 in 12 s, 4 of them held, are %d a minute, want 600", l.Learned)
	}
}

// TestHoldEscalates holds that refusals without a success make each hold twice
// as long, up to a bound, and end with one call; and that a success ends that.
func TestHoldEscalates(t *testing.T) {
	par := DefaultParams()
	var h poolHold
	now := Hour
	for i, want := range []Nanos{Second, 2 * Second, 4 * Second, 8 * Second} {
		if got := h.refused(&par, now, now, 0, -1, 0); got != want || h.trial != (i > 0) {
			t.Fatalf("hold %d is %s, one call %v, want %s", i, got, h.trial, want)
		}
		now = h.until
	}
	for range 80 {
		h.refused(&par, now, now, 0, -1, 0)
		now = h.until
	}
	if got := h.refused(&par, now, now, 0, -1, 0); got != par.HoldMax {
		t.Errorf("the longest hold is %s, want %s", got, par.HoldMax)
	}
	if h.succeeded(h.until - 1) {
		t.Error("a call from before the hold ended it")
	}
	if !h.succeeded(h.until) || h.trial {
		t.Error("a call sent after the hold did not end it")
	}
	now = h.until + Second
	if got := h.refused(&par, now, now, 0, -1, 0); got != par.HoldDefault {
		t.Errorf("after a success the hold is %s, want %s", got, par.HoldDefault)
	}
}

func TestHoldHeedsHints(t *testing.T) {
	par := DefaultParams()
	for _, c := range []struct{ hint, want Nanos }{
		{100 * Millisecond, 100 * Millisecond},
		{30 * Second, 30 * Second},
		{24 * Hour, par.HoldDefault},
		{-1, par.HoldDefault},
	} {
		var h poolHold
		if got := h.refused(&par, Hour, Hour, 0, c.hint, 0); got != c.want {
			t.Errorf("asked for %s: %s, want %s", c.hint, got, c.want)
		}
	}
	var h poolHold
	h.refused(&par, Hour, Hour, 0, Second, 0)
	h.refused(&par, h.until, h.until, 0, Second, 0)
	if got := h.refused(&par, h.until, h.until, 0, Second, 0); got != 4*Second {
		t.Errorf("a hint that is too short for the third time holds for %s, want 4s", got)
	}
}

// TestHoldTrial holds that a single call counts as taken only once it was sent
// and its refusal would have come, and is granted again if it was never sent.
func TestHoldTrial(t *testing.T) {
	par := DefaultParams()
	h := poolHold{until: Hour, series: 1}
	h.refused(&par, Hour, Hour, 200*Millisecond, -1, 0)
	h.tried, h.mark = h.until, 7
	if !h.trying(h.tried+h.patience()-1, 8) {
		t.Error("the trial ended before a refusal could have come")
	}
	if !h.trying(h.until+h.patience(), 7) || h.tried != 0 {
		t.Error("a call that was never sent counts as taken")
	}
	h.tried = h.until
	if h.trying(h.tried+h.patience(), 8) || !h.proven {
		t.Error("a call that was not refused in time does not count as taken")
	}
}

// TestHintsOfLimits holds that an answer's limit is taken, corrected downwards
// by what it left, and not believed against what is let through.
func TestHintsOfLimits(t *testing.T) {
	s := newScript(t)
	s.fold(&Config{Channels: []ChannelConfig{{Name: "m"}}})
	hint := func(seq uint64, ok int, limit, remaining int64) {
		s.now += 10 * Second
		r := &Attempts{Source: Source{Agent: "a", Boot: 1, Seq: seq, Span: 1}, Channels: []ChannelReport{{Channel: "m", Queued: 3}}}
		for range ok {
			r.Attempts = append(r.Attempts, Attempt{Class: ClassOK, RetryAfter: -1, Hints: []LimitHint{{Dimension: DimRequests, Limit: limit, Remaining: remaining, Reset: -1}}})
		}
		s.fold(r)
	}
	hint(1, 10, 600, 500)
	v := s.f.View().Pools
	if len(v) != 1 || v[0].RequestsFrom != "hinted" || v[0].RequestsPerMin != 600 {
		t.Fatalf("pools %+v", v)
	}
	left := v[0].RequestsLeft
	hint(2, 1, 600, 2)
	if v = s.f.View().Pools; v[0].RequestsDrift <= 0 || v[0].RequestsLeft >= max(left, 600) {
		t.Errorf("2 are left, the ledger has %d, drift %d", v[0].RequestsLeft, v[0].RequestsDrift)
	}
	s = newScript(t)
	s.fold(&Config{Channels: []ChannelConfig{{Name: "m"}}})
	hint(1, 100, 10, 5)
	hint(2, 100, 10, 5)
	if v = s.f.View().Pools; len(v) > 0 && v[0].RequestsPerMin >= 0 {
		t.Errorf("600 a minute are let through, and %d are believed", v[0].RequestsPerMin)
	}
}

// TestPaceOfQuietTime holds that a refusal in a quiet time does not teach a
// limit far below what was let through before.
func TestPaceOfQuietTime(t *testing.T) {
	par := DefaultParams()
	c := newChannel("m", &par, Hour)
	c.cfg = &ChannelConfig{Name: "m"}
	now := Hour
	for range 20 {
		c.notePace(now)
		now += flowSpan
		c.counts[ClassOK] += 100 // 1200 a minute
	}
	for range 20 {
		c.notePace(now)
		now += flowSpan
	}
	a := &Attempt{Reserved: 10}
	if requests, tokens := c.pace(now, a); requests < 500 || requests > 600 || tokens != requests {
		t.Errorf("%d requests and %d tokens a minute, want a little under 600 of each", requests, tokens)
	}
}
