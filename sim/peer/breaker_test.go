package peer

import (
	"testing"

	"weir/model"
)

func TestBreakerStepByStep(t *testing.T) {
	s := &line{t: t, l: NewBreaker()}
	late := s.send()
	// Five failures in a row do not open it, nor do five more after a success.
	for range 5 {
		s.refused(s.send())
	}
	s.ok(s.send())
	for range 5 {
		s.noise(s.send())
	}
	// The sixth does, whatever kind of error it is.
	last := s.send()
	s.now = 10 * second
	s.end(last, model.ClassTransport, 0)
	s.ask(Shed, 0)
	// A result of a call sent before says nothing any more.
	s.ok(late)
	s.ask(Shed, 0)
	// 60 s later, and not before, one call goes out.
	s.now = 70 * second
	s.ask(Shed, 0)
	s.now++
	probe := s.send()
	s.ask(Shed, 0)
	s.now += 5 * second
	s.refused(probe)
	s.ask(Shed, 0)
	// Another 60 s; this time it works.
	s.now += 60 * second
	s.ask(Shed, 0)
	s.now++
	probe = s.send()
	s.ok(probe)
	// Closed, with nothing counted: six more failures open it again.
	for range 6 {
		s.refused(s.send())
	}
	s.ask(Shed, 0)
}
