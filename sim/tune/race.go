package tune

import "math"

// What a race decides by.
const (
	// leastPairs is after how many pairs a trial may be dropped first: fewer
	// could not be surely worse, whatever they gave.
	leastPairs = 6
	// surely is the error that a drop may have.
	surely = 0.02
	// step is the least gain that a trial is followed for.
	step = 0.002
)

// race lives trials through the search's pairs, block by block, and drops
// those that are surely no better than the best so far. Which trials are
// dropped depends on the blocks before, not on their own order.
func (s *study) race(trials []*Trial) error {
	alive := trials
	block := (leastPairs + len(s.c.Incidents) - 1) / len(s.c.Incidents) * len(s.c.Incidents)
	for from := 0; from < len(s.search) && len(alive) > 0; from += block {
		to := min(from+block, len(s.search))
		if err := s.live(alive, s.search[from:to]); err != nil {
			return err
		}
		var left []*Trial
		for _, t := range alive {
			t.Runs = to
			t.Broken = s.brokenBy(t, s.search[:to])
			t.Full = to == len(s.search) && (t == s.base || t.Broken == "")
			if t == s.base || t.Broken == "" && (t.Full || !s.noBetter(t)) {
				left = append(left, t)
			}
		}
		alive = left
	}
	for _, t := range trials {
		s.score(t)
	}
	for _, t := range alive {
		if s.best == nil || t.Score < s.best.Score {
			s.best = t
			s.path = append(s.path, t)
		}
	}
	s.tell()
	return nil
}

// brokenBy returns the first invariant that a trial broke. Where the parameters
// in force break one too, the fault is not the trial's.
func (s *study) brokenBy(t *Trial, pairs []pair) string {
	for i, o := range s.outcomes(t, pairs) {
		if o.Broken != "" && (t.Hash == s.base.Hash || s.known[key{s.base.Hash, pairs[i]}].Broken == "") {
			return o.Broken
		}
	}
	return ""
}

// noBetter reports whether a trial is surely no better than the best so far,
// by as much as is worth following: in the pairs that both lived through most
// are worse, and so is what the trial is judged by.
func (s *study) noBetter(t *Trial) bool {
	pairs := s.search[:t.Runs]
	mine, best := s.losses(t, pairs), s.losses(s.best, pairs)
	if blend(mine, s.c.Tail)+step <= blend(best, s.c.Tail) {
		return false
	}
	for i := range mine {
		mine[i] += step - best[i]
	}
	return worse(mine) < surely
}

// score judges a trial by what it lived through. One that was dropped gets the
// best's score and its own distance from it in what both have seen.
func (s *study) score(t *Trial) {
	pairs := s.search[:t.Runs]
	t.Losses = mean(s.outcomes(t, pairs))
	own := blend(s.losses(t, pairs), s.c.Tail)
	switch {
	case t.Broken != "" && t != s.base:
		t.Score = math.Inf(1)
	case t.Full:
		t.Score = own + s.far(t)
	default:
		t.Score = s.best.Score + own - blend(s.losses(s.best, pairs), s.c.Tail)
	}
}
