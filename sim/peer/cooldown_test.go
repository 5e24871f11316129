package peer

import (
	"testing"

	"weir/model"
)

func TestCooldownOfOneAmongOthers(t *testing.T) {
	s := &line{t: t, l: NewCooldown(false, Dice{})}
	// One 429 puts it aside for 5 s.
	s.refused(s.send())
	s.now = 5*second - 1
	s.ask(Shed, 0)
	s.now++
	// Or for what the answer asks; asked for nothing, not at all.
	x := s.send()
	x.RetryAfter = 12 * second
	s.refused(x)
	s.now += 12*second - 1
	s.ask(Shed, 0)
	s.now++
	x = s.send()
	x.RetryAfter = 0
	s.refused(x)
	s.ask(Admit, 0)

	// Server errors count by the minute: more than half of at least five.
	s.now = 200 * second
	s.ok(s.send())
	s.ok(s.send())
	for range 2 {
		s.noise(s.send())
	}
	s.ask(Admit, 0) // 2 of 4
	s.noise(s.send())
	s.ask(Shed, 0) // 3 of 5
	// The successes' minute ends before the failures' does if it began before.
	s.now += minute
	for range 4 {
		s.noise(s.send())
	}
	s.ask(Admit, 0) // 4 of 4
	s.noise(s.send())
	s.ask(Shed, 0) // 5 of 5
}

func TestCooldownAlone(t *testing.T) {
	s := &line{t: t, l: NewCooldown(true, Dice{})}
	for range 999 {
		s.refused(s.send())
	}
	s.ask(Admit, 0)
	s.refused(s.send()) // the thousandth of a minute without success
	s.ask(Shed, 0)
	s.now = minute
	s.ok(s.send())
	for range 2000 {
		s.refused(s.send())
	}
	s.ask(Admit, 0)
	// What no retry helps is put aside even so, but not a bad request.
	s.end(s.send(), model.ClassInvalid, 400)
	s.ask(Admit, 0)
	s.end(s.send(), model.ClassAuth, 401)
	s.ask(Shed, 0)
}

func TestCooldownRetries(t *testing.T) {
	l := NewCooldown(true, Dice{Seed: 2})
	refused := Sample{Class: model.ClassRateLimited, Status: 429, RetryAfter: -1}
	asked := refused
	asked.RetryAfter = 20 * second
	tooLong := refused
	tooLong.RetryAfter = 61 * second
	for _, c := range []struct {
		name  string
		tries int
		g     Group
		s     *Sample
		least int64
		most  int64 // negative for none
	}{
		{"others are healthy", 1, Group{All: 3, Healthy: 1}, &refused, 0, 0},
		{"none is healthy", 1, Group{All: 3, Healthy: 0}, &refused, 0, -1},
		{"alone", 1, Group{All: 1, Healthy: 1}, &refused, 500 * millisecond, 1250 * millisecond},
		{"alone, second", 2, Group{All: 1, Healthy: 1}, &refused, 500 * millisecond, 1250 * millisecond},
		{"alone, third", 3, Group{All: 1, Healthy: 1}, &refused, 0, -1},
		{"asked to wait", 1, Group{All: 1, Healthy: 1}, &asked, 20 * second, 20_750 * millisecond},
		{"asked to wait too long", 1, Group{All: 1, Healthy: 1}, &tooLong, 500 * millisecond, 1250 * millisecond},
		{"bad request", 1, Group{All: 3, Healthy: 3}, &Sample{Class: model.ClassInvalid}, 0, -1},
		{"no credential, alone", 1, Group{All: 1, Healthy: 1}, &Sample{Class: model.ClassAuth}, 0, -1},
		{"no credential, others", 1, Group{All: 2, Healthy: 1}, &Sample{Class: model.ClassAuth}, 0, 0},
	} {
		for range 50 {
			wait, _, ok := l.Again(0, c.tries, c.g, c.s)
			if ok != (c.most >= 0) || ok && (wait < c.least || wait > c.most) {
				t.Errorf("%s: wait %d, %v; want %d..%d", c.name, wait, ok, c.least, c.most)
				break
			}
		}
	}
}
