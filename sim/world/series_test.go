package world

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/sim/incident"
)

// TestSeriesAddsUp holds that a series counts what the books count, is as long
// as was asked for, and leaves the run as it was.
func TestSeriesAddsUp(t *testing.T) {
	for _, policy := range []string{PolicyNone, PolicyWeir} {
		plain := run(t, Config{Incident: cascade(t), Seed: 2, Policy: policy})
		for _, points := range []int{1, 7, 30, 1000} {
			r := run(t, Config{Incident: cascade(t), Seed: 2, Policy: policy, Points: points})
			if r.Digest != plain.Digest || r.Completed != plain.Completed {
				t.Fatalf("%s: being watched changed the run", policy)
			}
			s := r.Series
			if n := len(s.Points); n > points || n != 30/s.Step {
				t.Errorf("%s: %d points of %d s, at most %d asked for", policy, n, s.Step, points)
			}
			var got, want Second
			for _, p := range s.Points {
				add(&got, &p.Second)
			}
			for i := range r.Seconds[:len(s.Points)*s.Step] {
				add(&want, &r.Seconds[i])
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, %d points (-books +series):\n%s", policy, points, d)
			}
		}
	}
}

// add sums what counts.
func add(to, s *Second) {
	to.Wanted += s.Wanted
	to.Completed += s.Completed
	to.Failed += s.Failed
	to.Sent += s.Sent
	to.Could += s.Could
	for i, n := range s.Refused {
		to.Refused[i] += n
	}
}

// TestSeriesShowsChannels holds that each channel has its own provider's load
// and, with Weir, its own window and breaker.
func TestSeriesShowsChannels(t *testing.T) {
	inc := builtin(t, "cold-spare").Compress(30 * time.Second)
	for _, policy := range []string{PolicyNone, PolicyWeir} {
		r := run(t, Config{Incident: inc, Seed: 1, Policy: policy, Points: 100})
		if want := channelNames(inc); !slices.Equal(r.Series.Channels, want) {
			t.Fatalf("channels %v, want %v", r.Series.Channels, want)
		}
		for _, p := range r.Series.Points {
			for i, c := range p.Channels {
				law := inc.ProviderByName(inc.Channels[i].Provider).Law
				if c.Known != (policy == PolicyWeir) || c.Known && (c.Window < 1000 || c.Weight <= 0) {
					t.Errorf("%s: channel %d at %d s: %+v", policy, i, p.At, c)
				}
				if p.At == 1 && c.Capacity != law.Concurrency {
					t.Errorf("channel %d: capacity %d, want %d", i, c.Capacity, law.Concurrency)
				}
			}
		}
	}
}

func channelNames(inc *incident.Incident) (names []string) {
	for i := range inc.Channels {
		names = append(names, inc.Channels[i].Name)
	}
	return names
}

// TestSpread compares the classes with the sorted durations.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, 1<<62), 1, 200).Draw(t, "durations")
		var s spread
		for _, d := range all {
			s.add(d)
		}
		slices.Sort(all)
		for percent := int64(0); percent <= 100; percent += 5 {
			want := all[(int64(len(all))-1)*percent/100]
			got := int64(s.at(percent))
			if off := got - want; off > want/32 || -off > want/32 {
				t.Fatalf("%d %%: got %d, want %d", percent, got, want)
			}
		}
	})
	var none spread
	if got := none.at(50); got != -1 {
		t.Errorf("of nothing: %v, want -1", got)
	}
}
