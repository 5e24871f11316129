package model

import "testing"

// TestEvidence holds that of what is in flight at refusals and what is started
// between them the steadier is the limit, however a window follows what is
// refused, and a limit that moves is none per minute.
func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name    string
		called  Class
		levels  []int64
		started []int64 // between a refusal and the one before, ten seconds
		rate    bool
	}{
		{"a limit of calls", ClassOverloaded, []int64{200, 201, 200, 199, 200, 200}, []int64{400, 380, 430, 410, 370, 420}, false},
		{"a limit of calls that moves", ClassOverloaded, []int64{100, 115, 130, 137, 125, 105, 85}, []int64{350, 400, 455, 470, 440, 360, 300}, false},
		{"a limit of calls that falls", ClassOverloaded, []int64{141, 112, 87, 82, 66, 55}, []int64{390, 300, 230, 200, 130, 90}, false},
		{"a limit per minute under a window", ClassOverloaded, []int64{61, 53, 51, 49, 55, 67, 49, 65}, []int64{90, 91, 89, 90, 90, 91, 89, 90}, true},
		{"nothing else in flight", ClassOverloaded, []int64{2, 0, 1, 0, 0}, []int64{5, 3, 5, 2, 4}, true},
		{"called a rate, at any level", ClassRateLimited, []int64{60, 47, 77, 52, 40, 66, 44}, []int64{90, 91, 89, 90, 90, 91, 89}, true},
		{"called a rate, at the same level", ClassRateLimited, []int64{20, 20, 20, 20, 20, 20}, []int64{90, 70, 95, 60, 80, 75}, false},
		{"an outage", ClassOverloaded, []int64{200, 180, 90, 0, 0, 0, 0}, []int64{100, 0, 0, 0, 0, 0, 0}, false},
	} {
		var (
			e     evidence
			s     suspect
			now   Nanos
			taken int64
		)
		for i, n := range c.levels {
			now += 10 * Second
			taken += c.started[i]
			s.Started = [2]int64{c.started[i], c.started[i]}
			more := e.vote(now, now, n, taken, c.called)
			if measured := s.see(now); measured && more {
				e.compare(n, &s)
			}
		}
		if got, why := e.rate(); got != c.rate {
			t.Errorf("%s: rate %v (%s), %+v", c.name, got, why, e)
		}
	}
}

// TestSuspect holds that the limit is suspected of which as much was let through
// as ever while of the other it was less, and tokens where that tells nothing.
func TestSuspect(t *testing.T) {
	for _, c := range []struct {
		name             string
		requests, tokens []int64
		want             bool // requests
	}{
		{"the same calls", []int64{100, 101, 99, 100, 101}, []int64{1000, 990, 1010, 1005, 1000}, false},
		{"calls got smaller", []int64{100, 101, 99, 100, 101}, []int64{1000, 1010, 990, 800, 700}, true},
		{"calls got larger", []int64{100, 101, 99, 70, 60}, []int64{1000, 1010, 990, 1000, 1005}, false},
		{"both are met in turn", []int64{100, 99, 101, 60, 100}, []int64{600, 1000, 700, 1000, 600}, true},
	} {
		var s suspect
		now := Hour
		s.see(now)
		for i := range c.requests {
			now += 20 * Second
			s.Started = [2]int64{c.requests[i], c.tokens[i]}
			if !s.see(now) {
				t.Fatalf("%s: 20 s measure nothing", c.name)
			}
			s.Started = [2]int64{1, 1}
			if s.see(now + Second) {
				t.Fatalf("%s: a second measures something", c.name)
			}
		}
		if s.Requests != c.want {
			t.Errorf("%s: suspected requests: %v, %+v", c.name, s.Requests, s)
		}
	}
}
