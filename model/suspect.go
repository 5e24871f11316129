package model

// suspect is which of a pool's limits refusals meet that do not say.
//
// What was started between two of them is measured. The limit that was met is
// the one that was let through as much of as ever, where less than that was of
// the other; else the one of which the same is started between any two. Where
// neither tells, it is tokens: pacing those lets small calls go first, so that
// the two part, while pacing requests keeps them alike.
type suspect struct {
	// Requests is set when it is requests, not tokens.
	Requests bool
	// Guessed is set while what was learned rests on this.
	Guessed bool
	// At is the last refusal that began a measurement, Started what was started
	// since: requests, tokens.
	At      Nanos
	Started [2]int64
	// Last is the pace between the last two, Most the highest, of which a 32nd is
	// forgotten each time, Spread how much the pace differs from one to the next,
	// Count how many are known.
	Last, Most [2]int64
	Spread     [2]PPM
	Count      int64
}

const (
	// spreadCount is how many paces must be known before one is called steadier.
	spreadCount = 3
	// apartLeast and apartMost bound the time between two refusals that measures a
	// pace to compare: in less a call more or less is much of it, and in more the
	// limit was not met all the time.
	apartLeast = 5 * Second
	apartMost  = Minute
	// apartShare is by how much less than ever was let through of the limit that
	// was not met.
	apartShare PPM = 100_000
)

// steadier reports whether of two spreads a is clearly the smaller.
func steadier(a, b PPM) bool { return a*3/2 < b }

// spread adds a difference to the spread of, where n are known.
func spread(of *PPM, off PPM, n int64) {
	if n <= 0 {
		*of = off
		return
	}
	*of += (off - *of) / 4
}

// see takes a refusal that begins an episode, and reports whether it measured a
// pace. The first is no pace to compare: agents that nobody heard of the pool
// before have not told what they started.
func (s *suspect) see(now Nanos) bool {
	span, started := now-s.At, s.Started
	if s.At > 0 && span < apartLeast {
		return false
	}
	first := s.At == 0 || span > apartMost
	s.At, s.Started = now, [2]int64{}
	if first {
		return false
	}
	var near [2]PPM
	for i := range started {
		pace, last := max(mulDiv(started[i], int64(Minute), int64(span)), 0), s.Last[i]
		if s.Count > 0 {
			spread(&s.Spread[i], PPM(mulDiv(max(pace-last, last-pace), int64(One), max(pace, last, 1))), s.Count-1)
			s.Most[i] = max(pace, s.Most[i]-s.Most[i]/32)
			near[i] = PPM(mulDiv(pace, int64(One), max(s.Most[i], 1)))
		}
		s.Last[i] = pace
	}
	s.Count = min(s.Count+1, 1<<20)
	switch {
	case near[0] >= near[1]+apartShare:
		s.Requests = true
	case near[1] >= near[0]+apartShare:
		s.Requests = false
	}
	return true
}

// guess returns the limit that refusals meet which do not say. One that is told
// goes before one that is not.
func (p *pool) guess() (Dimension, string) {
	r, t := p.requests.Told+p.requests.Hinted, p.tokens.Told+p.tokens.Hinted
	switch s := &p.suspect; {
	case r > 0 && t == 0:
		return DimRequests, "the only one known"
	case t > 0 && r == 0:
		return DimTokens, "the only one known"
	case s.Requests:
		return DimRequests, "which one by what was started"
	case s.Count < spreadCount:
		return DimTokens, "which one is a guess"
	}
	return DimTokens, "which one by what was started"
}

// acquit drops what was learned from refusals that turned out to be of another
// limit.
func (p *pool) acquit() {
	if p.suspect.Guessed {
		p.requests.unlearn()
		p.tokens.unlearn()
		p.suspect.Guessed, p.hold, p.next = false, poolHold{}, 0
	}
}

func (c *coder) suspect(s *suspect) {
	c.flag(&s.Requests)
	c.flag(&s.Guessed)
	num(c, &s.At)
	num(c, &s.Count)
	for i := range s.Last {
		num(c, &s.Started[i])
		num(c, &s.Last[i])
		num(c, &s.Spread[i])
		num(c, &s.Most[i])
	}
}
