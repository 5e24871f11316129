package workload

import (
	"time"

	"weir/sim/draw"
	"weir/sim/incident"
)

// Again says what an application does by itself after a failed try: ok is
// false when it gives up, else it tries again after the wait. tries counts the
// tries so far, from 1.
func Again(habit incident.Retry, seed, request uint64, tries int64) (wait time.Duration, ok bool) {
	switch habit.Kind {
	case incident.RetryNone:
		return 0, false
	case incident.RetryRequeue:
		return habit.After, true
	case incident.RetryBackoff:
	}
	if tries >= habit.Attempts {
		return 0, false
	}
	d := min(int64(habit.After), int64(habit.Max))
	for n := int64(1); n < tries && d < int64(habit.Max); n++ {
		d = min(int64(habit.Max), incident.Scale(d, habit.Multiplier, incident.PPM)+1)
	}
	swing := incident.Scale(d, habit.Jitter, incident.PPM)
	return time.Duration(d - swing + draw.Seed(seed).Below(2*swing+1, draw.RetryJitter, request, uint64(tries))), true
}
