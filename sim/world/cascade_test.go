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

// TestCascadeStory plays the whole hour without control: for a quarter of an
// hour calls get slower and slower, none refused and fewer sent; from the first
// refusal on more and more are sent for less and less; and when machines come
// back, it stays jammed.
func TestCascadeStory(t *testing.T) {
	seeds := seedsOf(2, 20)
	jammed := uint64(0)
	for seed := range seeds {
		l := alone(t, "2064-cascade", seed)
		first := l.firstRefusal()
		slow := l.firstSlow(1.25)
		l.within("minutes of climbing latency before the first refusal", (first - slow).Minutes(), 13, 17)
		l.within("latency at the first refusal to that at first", l.latency(first-minutes, first)/l.latency(minutes, 3*minutes), 3.5, 6)
		l.within("refused before it", l.refused(0, first-time.Second), 0, 0)
		for from := first - 10*minutes; from+4*minutes < first; from += 2 * minutes {
			if a, b := l.latency(from, from+2*minutes), l.latency(from+2*minutes, from+4*minutes); b < a {
				t.Errorf("seed %d: latency falls from %.2f s to %.2f s at %v", seed, a, b, from)
			}
		}
		before, after := l.sum(first-2*minutes, first), l.sum(first+20*minutes, first+22*minutes)
		l.within("attempts twenty minutes later to those before the first refusal", float64(after.Sent)/float64(before.Sent), 10, 100)
		l.within("completed by them", float64(after.Completed)/float64(before.Completed), 0, 0.7)
		for from := first + minutes; from < first+15*minutes; from += 5 * minutes {
			if a, b := l.sum(from, from+5*minutes).Sent, l.sum(from+5*minutes, from+10*minutes).Sent; b <= a {
				t.Errorf("seed %d: attempts fall from %d to %d in five minutes at %v", seed, a, b, from)
			}
		}
		if l.good(56*minutes, 60*minutes) < 0.5 {
			jammed++
		}
	}
	if jammed*20 < seeds*18 {
		t.Errorf("%d of %d seeds stay jammed, want 18 of 20", jammed, seeds)
	}
}

// TestPauseStory: the jam lasts until the queue is stopped, and a quarter of an
// hour after that all is as it was.
func TestPauseStory(t *testing.T) {
	seeds := seedsOf(2, 20)
	jammed := uint64(0)
	const stop, calm = 26 * minutes, 42 * minutes
	for seed := range seeds {
		l := alone(t, "2064-pause", seed)
		if l.good(stop-2*minutes, stop) < 0.5 && l.refused(stop-2*minutes, stop) > 0.5 {
			jammed++
		}
		l.within("refused from the restart on", l.refused(stop+3*minutes, 45*minutes), 0, 0)
		l.within("latency in the trickle to that at first", l.latency(35*minutes, calm)/l.latency(30*time.Second, minutes), 0.8, 1.2)
		l.within("wanted and completed after it", float64(l.sum(calm, 45*minutes).Completed)/float64(l.sum(calm, 45*minutes).Wanted), 0.99, 1.01)
		l.within("completed five minutes before to those after it", float64(l.sum(calm-7*minutes, calm-5*minutes).Completed)/float64(l.sum(calm, calm+2*minutes).Completed), 0.3, 0.8)
	}
	if jammed*20 < seeds*18 {
		t.Errorf("%d of %d seeds are jammed until the pause, want 18 of 20", jammed, seeds)
	}
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
