package model

import (
	"fmt"
	"slices"
)

// leaseOf names a lease in the whole fleet.
type leaseOf struct{ channel, agent string }

// claims returns the claims of every lease.
func (f *Fleet) claims() map[leaseOf]int64 {
	claims := map[leaseOf]int64{}
	for _, c := range f.channels {
		for i := range c.leases {
			claims[leaseOf{c.name, c.leases[i].agent}] = c.leases[i].claim(f.now)
		}
	}
	return claims
}

// verify panics when a record broke what must hold after every one: the state
// is sound, and no grant raised a claim unless all claims are within the
// limit. before are the claims before the record.
func (f *Fleet) verify(fact Fact, before map[leaseOf]int64) {
	if err := f.check(); err != nil {
		panic(fmt.Sprintf("model: BUG: record %d: %v\n%s", f.seq, err, f.Describe()))
	}
	for _, c := range f.channels {
		c.verifySums(f.seq)
	}
	if _, ok := fact.(*Rebase); ok {
		return // another state
	}
	for _, c := range f.channels {
		var sum int64
		raised := ""
		for i := range c.leases {
			l := &c.leases[i]
			claim := l.claim(f.now)
			sum += claim
			if claim > before[leaseOf{c.name, l.agent}] && claim > l.inflight+l.held {
				raised = l.agent
			}
		}
		for i := range c.rows {
			was, is := c.rows[i], c.row(i, f.now)
			if was.target = 0; was != is && c.gone == 0 && !slices.Contains(c.touched, i) {
				panic(fmt.Sprintf("model: BUG: record %d: channel %s: the row of %s is %+v, should be %+v", f.seq, c.name, c.leases[i].agent, was, is))
			}
		}
		if claimed, _, _, _ := f.Claims(c.name); claimed != sum {
			panic(fmt.Sprintf("model: BUG: record %d: channel %s: claims are reckoned as %d and are %d", f.seq, c.name, claimed, sum))
		}
		if limit := c.limit(f.parOf(c)); raised != "" && sum > limit {
			panic(fmt.Sprintf("model: BUG: record %d: channel %s: the claim of %s rose and all are %d of %d\n%s", f.seq, c.name, raised, sum, limit, f.Describe()))
		}
	}
}

// verifySums panics where what is kept of all leases together is not their sum:
// a state that is restored reckons it anew, and must go on as this one.
func (c *channel) verifySums(seq uint64) {
	var granted, obeyed, gone int64
	for i := range c.leases {
		l := &c.leases[i]
		if l.away {
			gone++
			continue
		}
		granted, obeyed = granted+l.slots, obeyed+l.least
	}
	if granted != c.granted || obeyed != c.obeyed || gone != c.gone {
		panic(fmt.Sprintf("model: BUG: record %d: channel %s: granted %d, obeyed %d, gone %d, and reckoned as %d, %d, %d", seq, c.name, granted, obeyed, gone, c.granted, c.obeyed, c.gone))
	}
}
