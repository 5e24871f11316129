package peer

import (
	"testing"

	"weir/model"
)

// line is a story told to a limiter: calls go out and come back.
type line struct {
	t   *testing.T
	now int64
	l   Limiter
}

// ask wants a verdict, and for Wait the instant.
func (s *line) ask(want Verdict, at int64) {
	s.t.Helper()
	v, got := s.l.Ask(s.now, Call{})
	if v != want || v == Wait && got != at {
		s.t.Fatalf("at %d: %s until %d, want %s until %d", s.now, v, got, want, at)
	}
}

// send admits one call.
func (s *line) send() Sample {
	s.t.Helper()
	s.ask(Admit, 0)
	return Sample{Sent: s.now, Mark: s.l.Start(s.now, Call{}), RetryAfter: -1}
}

func (s *line) end(x Sample, class model.Class, status int) {
	x.Class, x.Status = class, status
	s.l.Done(s.now, &x)
}

func (s *line) ok(x Sample)      { s.end(x, model.ClassOK, 200) }
func (s *line) refused(x Sample) { s.end(x, model.ClassRateLimited, 429) }
func (s *line) noise(x Sample)   { s.end(x, model.ClassOverloaded, 500) }

// fill sends calls until the limiter no longer admits.
func (s *line) fill() []Sample {
	var all []Sample
	for len(all) < 10_000 {
		if v, _ := s.l.Ask(s.now, Call{}); v != Admit {
			return all
		}
		all = append(all, Sample{Sent: s.now, Mark: s.l.Start(s.now, Call{}), RetryAfter: -1})
	}
	return all
}

func TestWhatIsThrottled(t *testing.T) {
	for _, c := range []struct {
		class              model.Class
		status             int
		throttled, dropped bool
	}{
		{model.ClassOK, 200, false, false},
		{model.ClassRateLimited, 429, true, true},
		{model.ClassOverloaded, 529, true, true},
		{model.ClassOverloaded, 503, true, true},
		{model.ClassOverloaded, 200, true, true}, // 2064
		{model.ClassOverloaded, 500, false, false},
		{model.ClassQuotaExhausted, 429, true, true},
		{model.ClassAuth, 401, false, false},
		{model.ClassInvalid, 400, false, false},
		{model.ClassTransport, 0, false, true},
		{model.ClassCanceled, 0, false, false},
	} {
		s := Sample{Class: c.class, Status: c.status}
		if s.Throttled() != c.throttled || s.Dropped() != c.dropped {
			t.Errorf("%s %d: throttled %v, dropped %v; want %v, %v", c.class, c.status, s.Throttled(), s.Dropped(), c.throttled, c.dropped)
		}
	}
}

func TestOpenAdmitsAll(t *testing.T) {
	s := &line{t: t, l: Open{}}
	for range 1000 {
		s.refused(s.send())
	}
}

func TestDiceAreKeyed(t *testing.T) {
	a, b, c := Dice{Seed: 1, Entity: 2}, Dice{Seed: 1, Entity: 2}, Dice{Seed: 1, Entity: 3}
	same, other := 0, 0
	for range 100 {
		x := a.Below(1000)
		if x == b.Below(1000) {
			same++
		}
		if x == c.Below(1000) {
			other++
		}
	}
	if same != 100 || other > 10 {
		t.Errorf("%d of 100 draws repeat for the same key, %d for another; want all and next to none", same, other)
	}
}
