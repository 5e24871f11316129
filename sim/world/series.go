package world

import (
	"math/bits"
	"time"

	"weir/model"
)

// Series is a run over time, for people to look at. Whatever a run's length,
// it has no more points than were asked for; it changes nothing of the run.
type Series struct {
	// Step is how many seconds a point covers.
	Step int
	// Channels names the incident's first channels, at most seriesChannels.
	Channels []string
	Points   []Point
	// Spread has 101 entries: the time within which that many percent of the
	// requests completed since the books opened were; empty for none. It is
	// exact to 3 %.
	Spread []time.Duration
}

// Point is one step of a series: counts within it, and how things stood at its
// end.
type Point struct {
	Second
	// Abandoned counts attempts given up within the step.
	Abandoned int64
	// P50, P95 and P99 are the times of requests completed within the step, -1
	// for none.
	P50, P95, P99 time.Duration
	// Channels are in the order of Series.Channels.
	Channels []ChannelPoint
}

// ChannelPoint is a channel at the end of a step.
type ChannelPoint struct {
	// InFlight is at the channel's provider, Capacity its true cap, negative
	// for none.
	InFlight, Capacity int64
	// Window, Weight and Breaker are as Weir's controller had them; without
	// one Known is false.
	Known   bool
	Window  model.Milli
	Weight  model.PPM
	Breaker model.BreakerState
}

// seriesChannels bounds the channels of a series.
const seriesChannels = 8

// recorder builds a series while a run goes on.
type recorder struct {
	series    Series
	sum       Second
	abandoned int64 // when the step began
	step, all spread
}

// newRecorder makes one of at most so many points, nil for none.
func newRecorder(w *world) *recorder {
	most := w.cfg.Points
	if most <= 0 {
		return nil
	}
	seconds := int(w.end / int64(time.Second))
	r := &recorder{series: Series{Step: max(1, (seconds+most-1)/most)}}
	for i := range w.inc.Channels[:min(len(w.inc.Channels), seriesChannels)] {
		r.series.Channels = append(r.series.Channels, w.inc.Channels[i].Name)
	}
	return r
}

// took notes the time of a completed request.
func (r *recorder) took(d int64, counted bool) {
	r.step.add(d)
	if counted {
		r.all.add(d)
	}
}

// second takes a closed second of the books.
func (r *recorder) second(w *world, s *Second) {
	sum := r.sum
	r.sum = *s
	r.sum.Wanted += sum.Wanted
	r.sum.Completed += sum.Completed
	r.sum.Failed += sum.Failed
	r.sum.Sent += sum.Sent
	r.sum.Could += sum.Could
	for i, n := range sum.Refused {
		r.sum.Refused[i] += n
	}
	if s.At%r.series.Step != 0 {
		return
	}
	r.series.Points = append(r.series.Points, Point{
		Second: r.sum, Abandoned: w.book.abandoned - r.abandoned,
		P50: r.step.at(50), P95: r.step.at(95), P99: r.step.at(99), Channels: r.channels(w),
	})
	r.sum, r.step, r.abandoned = Second{}, spread{}, w.book.abandoned
}

func (r *recorder) channels(w *world) []ChannelPoint {
	points := make([]ChannelPoint, len(r.series.Channels))
	for i, name := range r.series.Channels {
		t := w.providers[w.service(name)].truth
		running, waiting := t.InFlight()
		points[i].InFlight, points[i].Capacity = running+waiting, t.Law().Concurrency
	}
	f := w.fleet()
	if f == nil {
		return points
	}
	view := f.View()
	for k := range view.Channels {
		c := &view.Channels[k]
		for i, name := range r.series.Channels {
			if c.Name == name {
				p := &points[i]
				p.Known, p.Window, p.Weight, p.Breaker = true, c.Window, c.Weight, c.State
			}
		}
	}
	return points
}

// finish returns the series, nil when none was asked for.
func (r *recorder) finish() *Series {
	if r == nil {
		return nil
	}
	if r.all.n > 0 {
		for percent := range int64(101) {
			r.series.Spread = append(r.series.Spread, r.all.at(percent))
		}
	}
	return &r.series
}

// spread counts durations in classes of which each is 1/32 wider than the one
// before: 16 KiB however many there are.
type spread struct {
	n       int64
	classes [64 * spreadParts]int64
}

const (
	spreadParts = 32
	spreadBits  = 5 // log2 of spreadParts
)

func (s *spread) add(d int64) {
	s.n++
	s.classes[spreadClass(max(d, 0))]++
}

func spreadClass(d int64) int {
	if d < spreadParts {
		return int(d)
	}
	shift := bits.Len64(uint64(d)) - 1 - spreadBits
	return (shift+1)<<spreadBits | int(d>>shift)&(spreadParts-1)
}

// at is the time within which so many percent are, -1 for none: the middle of
// its class.
func (s *spread) at(percent int64) time.Duration {
	rank := (s.n - 1) * percent / 100
	for class, n := range s.classes {
		if rank -= n; rank < 0 && s.n > 0 {
			return time.Duration(spreadMiddle(class))
		}
	}
	return -1
}

func spreadMiddle(class int) int64 {
	if class < spreadParts {
		return int64(class)
	}
	shift := class>>spreadBits - 1
	low := int64(spreadParts|class&(spreadParts-1)) << shift
	return low + int64(1)<<shift/2
}
