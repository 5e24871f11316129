package tune

import (
	"cmp"
	"math"
	"slices"
)

// What the selection looks at.
const (
	finalists = 5  // of the search
	tries     = 10 // to leave changes out
	flattest  = 2  // of what is left, looked at nearby
	nearby    = 4  // neighbours of each
	// selectionSets is about how many parameter sets that makes.
	selectionSets = 1 + finalists + tries + flattest*nearby
)

// choose takes the best few to new seeds and returns what to judge: nil when
// the search found nothing but what is in force.
func (s *study) choose() (*Trial, error) {
	s.phase = "selection"
	list := s.finalists()
	if len(list) == 0 {
		return nil, nil
	}
	if err := s.take(append([]*Trial{s.base}, list...)); err != nil {
		return nil, err
	}
	best := slices.MinFunc(list, bySelected)
	simpler, err := s.simplify(best)
	if err != nil {
		return nil, err
	}
	if simpler != best {
		list = append(list, simpler)
	}
	slices.SortStableFunc(list, bySelected)
	return s.flattest(list[:min(len(list), flattest)])
}

func bySelected(a, b *Trial) int { return cmp.Compare(a.Selected, b.Selected) }

// finalists are the last trials that were the best so far, and others with the
// best scores.
func (s *study) finalists() []*Trial {
	var list []*Trial
	add := func(t *Trial) {
		same := func(o *Trial) bool { return o.Hash == t.Hash }
		if t.Full && t.Broken == "" && t.Hash != s.base.Hash && !slices.ContainsFunc(list, same) && len(list) < finalists {
			list = append(list, t)
		}
	}
	for _, t := range slices.Backward(s.path) {
		if len(list) < finalists-2 {
			add(t)
		}
	}
	byScore := slices.Clone(s.trials)
	slices.SortStableFunc(byScore, func(a, b *Trial) int { return cmp.Compare(a.Score, b.Score) })
	for _, t := range byScore {
		add(t)
	}
	return list
}

// take lives trials through the selection's pairs and scores them there.
func (s *study) take(trials []*Trial) error {
	if err := s.live(trials, s.selection); err != nil {
		return err
	}
	for _, t := range trials {
		t.Taken = true
		t.Selected = blend(s.losses(t, s.selection), s.c.Tail) + s.far(t)
		if b := s.brokenBy(t, s.selection); b != "" {
			t.Broken = b
			t.Selected = math.Inf(1)
		}
	}
	return nil
}

// simplify puts changed parameters back to what is in force as long as that
// costs nothing: those that seem to do least first, many together and then
// fewer.
func (s *study) simplify(t *Trial) (*Trial, error) {
	const free = step / 2
	least := t.Selected
	axes := s.space.changed(t.Values, s.base.Values)
	effect := s.effects()
	slices.SortStableFunc(axes, func(a, b int) int { return cmp.Compare(effect[a], effect[b]) })
	part, from := (len(axes)+1)/2, 0
	for range tries {
		if from >= len(axes) {
			part, from = (part+1)/2, 0
		}
		to := min(from+part, len(axes))
		if to-from == len(axes) { // that is what is in force
			break
		}
		x := slices.Clone(point(t.Values))
		for _, i := range axes[from:to] {
			x[i] = s.base.Values[i]
		}
		less := s.trial("simpler", x)
		if err := s.take([]*Trial{less}); err != nil {
			return nil, err
		}
		if less.Selected > least+free {
			from = to
			continue
		}
		s.others = append(s.others, less)
		t, axes = less, slices.Concat(axes[:from], axes[to:])
	}
	return t, nil
}

// flattest returns the trial that stays best when each of its changed values is
// a tenth larger or smaller.
func (s *study) flattest(list []*Trial) (*Trial, error) {
	var winner *Trial
	least := math.Inf(1)
	for _, t := range list {
		around := []*Trial{}
		for range nearby {
			around = append(around, s.trial("near", s.near(t)))
		}
		if err := s.take(around); err != nil {
			return nil, err
		}
		sum := 0.0
		for _, n := range around {
			sum += n.Selected / nearby
		}
		if flat := (t.Selected + sum) / 2; winner == nil || flat < least {
			winner, least = t, flat
		}
	}
	return winner, nil
}

// near is a point beside a trial's.
func (s *study) near(t *Trial) point {
	x := slices.Clone(point(t.Values))
	for _, i := range s.space.changed(t.Values, s.base.Values) {
		p, by := &s.space.specs[i], 1.1
		if s.dice.Uint64()&1 == 0 {
			by = 1 / by
		}
		x[i] = min(max(int64(math.Round(float64(x[i])*by)), p.Min), p.Max)
	}
	return x
}
