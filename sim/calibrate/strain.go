package calibrate

import (
	"math"
	"slices"

	"weir/model"
)

// strain is one answered call: how much longer it took than others of its size,
// and beside how many.
type strain struct {
	// at is the middle of its life, in seconds since the log's first call, and
	// took how long that was.
	at, took float64
	// load is the mean number in flight during its life, itself included.
	load float64
	// long is the logarithm of its time over that of its size.
	long float64
}

// strains are the answered calls of a channel and the law of their sizes. Sizes
// and times are told apart within stretches, since what slows calls down moves
// with time and sizes do not.
func strains(calls []call, f flight, begin, end model.Nanos) ([]strain, fit) {
	mean := make([]float64, len(calls))
	for i := range calls {
		from := (calls[i].sent - begin).Duration().Seconds()
		mean[i] = f.mean(from, from+calls[i].took.Duration().Seconds())
	}
	all := whole(samples(calls, mean, begin), (end - begin).Duration().Seconds())
	if len(all) < leastStrains {
		return nil, fit{}
	}
	bins := min(max(len(all)/perBin, 1), maxBins)
	width := (end-begin).Duration().Seconds()/float64(bins) + 1e-9
	for i := range all {
		all[i].bin = min(max(int(all[i].at/width), 0), bins-1)
	}
	ratio := slices.Repeat([]float64{1}, bins)
	law := fit{one: meanOf(all)}
	for range 6 {
		law = regress(all, ratio, law)
		ratio = byTime(all, bins, law)
	}
	out := make([]strain, len(all))
	for i := range all {
		s := &all[i]
		out[i] = strain{s.at, s.took, max(s.load, 1), math.Log(s.took / max(law.at(s), 1e-9))}
	}
	return out, law
}

// whole leaves out what was sent so late that only short calls had ended before
// the log did, or that ran beside calls that had not.
func whole(all []sample, length float64) []sample {
	took := make([]float64, len(all))
	for i := range all {
		took[i] = all[i].took
	}
	slices.Sort(took)
	if len(took) > 0 {
		length -= 2 * took[(len(took)-1)*98/100]
	}
	return slices.DeleteFunc(all, func(s sample) bool { return s.at-s.took/2 > length })
}

// byTime is the mean ratio in each bin; the tenth of the least is 1.
func byTime(all []sample, bins int, f fit) []float64 {
	sum, n := make([]float64, bins), make([]float64, bins)
	for i := range all {
		sum[all[i].bin] += all[i].took / max(f.at(&all[i]), 1e-6)
		n[all[i].bin]++
	}
	var seen []float64
	for i := range sum {
		if n[i] > 0 {
			sum[i] = max(sum[i]/n[i], 1e-3)
			seen = append(seen, sum[i])
		}
	}
	slices.Sort(seen)
	least := seen[len(seen)/10]
	for i := range sum {
		if n[i] == 0 {
			sum[i] = least
		}
		sum[i] /= least
	}
	return sum
}

// flight is how many calls a provider had in hand over time.
type flight struct{ sent, ended tally }

func newFlight(calls []call, begin model.Nanos) flight {
	var sent, ended []float64
	for i := range calls {
		if c := &calls[i]; c.accepted() || model.Class(c.class) == model.ClassTransport {
			sent = append(sent, (c.sent - begin).Duration().Seconds())
			ended = append(ended, (c.end() - begin).Duration().Seconds())
		}
	}
	return flight{newTally(sent), newTally(ended)}
}

// mean is how many there were in the mean from one instant to another.
func (f *flight) mean(from, to float64) float64 {
	if to <= from {
		return 0
	}
	return (f.sent.until(to) - f.sent.until(from) - f.ended.until(to) + f.ended.until(from)) / (to - from)
}

// tally counts instants: until(t) is the integral of how many lie before t.
type tally struct {
	at  []float64
	sum []float64 // of the first k
}

func newTally(at []float64) tally {
	slices.Sort(at)
	t := tally{at: at, sum: make([]float64, len(at)+1)}
	for i, v := range at {
		t.sum[i+1] = t.sum[i] + v
	}
	return t
}

func (t *tally) until(v float64) float64 {
	k, _ := slices.BinarySearch(t.at, v)
	return float64(k)*v - t.sum[k]
}
