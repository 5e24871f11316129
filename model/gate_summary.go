package model

import "slices"

// Summarize turns facts of this gate that were built and never sent, *Attempts
// and *Summary in order and without a gap, into one Summary that takes their
// numbers. Every attempt among them is counted once.
func (g *Gate) Summarize(facts []Fact, s *Summary) {
	*s = Summary{Counts: s.Counts[:0], Pools: s.Pools[:0]}
	for i, f := range facts {
		var src *Source
		switch f := f.(type) {
		case *Attempts:
			src = &f.Source
			for k := range f.Attempts {
				a := &f.Attempts[k]
				s.count(SummaryCount{Channel: f.Channels[a.Channel].Channel, Class: a.Class, Attempts: 1, In: a.In, Out: a.Out})
			}
			s.pools(f.Pools)
		case *Summary:
			src = &f.Source
			for k := range f.Counts {
				s.count(f.Counts[k])
			}
			s.pools(f.Pools)
		default:
			panic("model: BUG: only attempts and summaries can be summarized")
		}
		if i == 0 {
			s.Source = *src
			s.Span = 0
		}
		s.Span += max(src.Span, 1)
	}
	g.out.full = true // how channels stood is in none of them now
	g.changed(g.now)
}

// count adds n, keeping Counts sorted by channel and class.
func (s *Summary) count(n SummaryCount) {
	i, found := slices.BinarySearchFunc(s.Counts, n, func(a, b SummaryCount) int {
		if c := compare(a.Channel, b.Channel); c != 0 {
			return c
		}
		return int(a.Class) - int(b.Class)
	})
	if !found {
		s.Counts = slices.Insert(s.Counts, i, n)
		return
	}
	c := &s.Counts[i]
	c.Attempts += n.Attempts
	c.In += n.In
	c.Out += n.Out
}

// pools takes a later word on pools, keeping Pools sorted by name.
func (s *Summary) pools(reports []PoolReport) {
	for _, n := range reports {
		n.Next = 0 // nothing waits any more by the time it is heard
		i, found := slices.BinarySearchFunc(s.Pools, n.Pool, func(p PoolReport, name string) int { return compare(p.Pool, name) })
		if found {
			s.Pools[i] = n
			continue
		}
		s.Pools = slices.Insert(s.Pools, i, n)
	}
}

// Older adds to the ages of a report's attempts the time it lay in a spool
// between building and sending.
func (a *Attempts) Older(by Nanos) {
	for i := range a.Attempts {
		a.Attempts[i].Age = gateLater(a.Attempts[i].Age, by)
	}
}
