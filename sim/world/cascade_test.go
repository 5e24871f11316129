package world

import (
	"os"
	"testing"
	"time"
)

// seedsOf is how many seeds a test over many plays: few, or all of them when
// WEIR_LONG is set.
func seedsOf(few, all uint64) uint64 {
	if os.Getenv("WEIR_LONG") != "" {
		return all
	}
	return few
}

// story counts, over seeds, how often each part of a story comes true. A jam is
// a matter of chance, so each must in 18 of 20 seeds.
type story struct {
	*testing.T
	seeds uint64
	held  map[string]uint64
	parts []string
}

// part says whether one part came true under a seed.
func (s *story) part(what string, got, least, most float64) {
	if _, seen := s.held[what]; !seen {
		s.held[what] = 0
		s.parts = append(s.parts, what)
	}
	if got >= least && got <= most {
		s.held[what]++
	} else {
		s.Logf("%s: %.3f, want %.3f to %.3f", what, got, least, most)
	}
}

func (s *story) end() {
	for _, what := range s.parts {
		if n := s.held[what]; n*20 < s.seeds*18 {
			s.Errorf("%s: came true in %d of %d seeds", what, n, s.seeds)
		}
	}
}

// TestCascadeStory plays the whole hour without control: for a quarter of an
// hour calls get slower and slower, none refused and fewer sent; from the first
// refusal on more and more are sent for less and less; and when machines come
// back, it stays jammed.
func TestCascadeStory(t *testing.T) {
	s := story{t, seedsOf(2, 20), map[string]uint64{}, nil}
	for seed := range s.seeds {
		l := alone(t, "2064-cascade", seed)
		first := l.firstRefusal()
		slow := l.firstSlow(1.25)
		s.part("minutes of climbing latency before the first refusal", (first - slow).Minutes(), 12, 18)
		s.part("latency at the first refusal to that at first", l.latency(first-minutes, first)/l.latency(minutes, 3*minutes), 3, 6)
		s.part("latency half way there", l.latency(first-8*minutes, first-7*minutes)/l.latency(minutes, 3*minutes), 1.5, 5)
		before, after := l.sum(first-2*minutes, first), l.sum(first+20*minutes, first+22*minutes)
		s.part("attempts twenty minutes later to those before the first refusal", float64(after.Sent)/float64(before.Sent), 10, 100)
		s.part("attempts ten minutes later", float64(l.sum(first+10*minutes, first+12*minutes).Sent)/float64(before.Sent), 3, float64(after.Sent)/float64(before.Sent))
		s.part("completed twenty minutes later", float64(after.Completed)/float64(before.Completed), 0, 0.75)
		s.part("jammed at the end", l.good(56*minutes, 60*minutes), 0, 0.5)
	}
	s.end()
}

// TestPauseStory: the jam lasts until the queue is stopped, and a quarter of an
// hour after that all is as it was.
func TestPauseStory(t *testing.T) {
	s := story{t, seedsOf(2, 20), map[string]uint64{}, nil}
	const stop, calm = 26 * minutes, 42 * minutes
	for seed := range s.seeds {
		l := alone(t, "2064-pause", seed)
		after := l.sum(calm, 45*minutes)
		s.part("jammed until the pause", l.good(stop-2*minutes, stop), 0, 0.5)
		s.part("refused until the pause", l.refused(stop-2*minutes, stop), 0.5, 1)
		s.part("refused from the restart on", l.refused(stop+3*minutes, 45*minutes), 0, 0)
		s.part("latency in the trickle to that at first", l.latency(35*minutes, calm)/l.latency(30*time.Second, minutes), 0.8, 1.2)
		s.part("completed of what is wanted after it", float64(after.Completed)/float64(after.Wanted), 0.98, 1.02)
		s.part("completed in its middle to after it", float64(l.sum(calm-7*minutes, calm-4*minutes).Completed)/float64(after.Completed), 0.3, 0.9)
	}
	s.end()
}

// alone lives a built-in incident through without control.
func alone(t *testing.T, name string, seed uint64) *life {
	t.Helper()
	inc := builtin(t, name)
	return &life{t, inc, nil, run(t, Config{Incident: inc, Seed: seed, Policy: PolicyNone})}
}

// firstRefusal is the end of the second with the first refusal.
func (l *life) firstRefusal() time.Duration {
	for _, s := range l.r.Seconds {
		for _, n := range s.Refused {
			if n > 0 {
				return time.Duration(s.At) * time.Second
			}
		}
	}
	l.Fatal("nothing is refused")
	return 0
}

// latency is the mean time of a call at the providers, by Little's law.
func (l *life) latency(from, to time.Duration) float64 {
	inFlight := int64(0)
	for _, s := range l.r.Seconds {
		if at := time.Duration(s.At) * time.Second; at > from && at <= to {
			inFlight += s.InFlight
		}
	}
	return float64(inFlight) / float64(max(l.sum(from, to).Completed, 1))
}

// firstSlow is the first minute with a latency so many times that of the
// second and third minute.
func (l *life) firstSlow(times float64) time.Duration {
	usual := l.latency(minutes, 3*minutes)
	for at := 3 * minutes; at < l.inc.Duration; at += 20 * time.Second {
		if l.latency(at, at+minutes) > times*usual {
			return at
		}
	}
	l.Fatal("nothing gets slow")
	return 0
}
