package incident

import (
	"fmt"
	"slices"
	"time"
)

// Share is the part of their stream that applications send at an instant, in
// ppm: 0 in a Pause, then rising linearly over Over to PPM.
func (f *Fleet) Share(at time.Duration) int64 {
	share := int64(PPM)
	for i := range f.Changes {
		if c := &f.Changes[i]; c.Kind == Pause {
			share = min(share, c.share(at))
		}
	}
	return share
}

// share is what one pause leaves.
func (c *FleetChange) share(at time.Duration) int64 {
	since := at - c.At - c.For
	switch {
	case at < c.At || since >= c.Over:
		return PPM
	case since < 0:
		return 0
	}
	return Scale(int64(since), PPM, int64(c.Over))
}

// Opening is the first instant from at on with a share above rank, which is
// less than PPM.
func (f *Fleet) Opening(at time.Duration, rank int64) time.Duration {
	for f.Share(at) <= rank {
		for i := range f.Changes {
			c := &f.Changes[i]
			if c.Kind == Pause && c.share(at) <= rank {
				at = c.At + c.For + time.Duration(Scale(int64(c.Over), rank+1, PPM)) + 1
			}
		}
	}
	return at
}

// WithAgents returns the same incident with another number of agents at the
// start, which becomes part of its name and its sentence. n is at least 1; i is
// not changed.
func (i *Incident) WithAgents(n int) *Incident {
	out := *i
	out.Name = fmt.Sprintf("%s-%d", i.Name, n)
	out.About = fmt.Sprintf("%s; with %d agents", i.About, n)
	out.Fleet.Agents, out.Fleet.Also = n, nil
	return &out
}

// Traces returns the files that trace arrivals name, each once, in order of
// name. Who runs the incident has to read them.
func (i *Incident) Traces() []string {
	var names []string
	for k := range i.Workloads {
		if a := &i.Workloads[k].Arrivals; a.Kind == ArriveTrace {
			names = append(names, a.File)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
