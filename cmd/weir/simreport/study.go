package simreport

import (
	"slices"

	"weir/cmd/weir/report"
	"weir/sim/incident"
	"weir/sim/world"
)

// Number is a number that may be missing.
type Number = report.Number

// Study is what a command line came to.
type Study struct {
	Title string `json:"title"`
	// Command is what was asked for, Version the software's.
	Command string `json:"command"`
	Version string `json:"version"`
	// Seeds are the seeds of each incident and policy.
	Seeds     []uint64   `json:"seeds"`
	Incidents []Incident `json:"incidents"`
	Policies  []Policy   `json:"policies"`
	// Runs are in the order of incident, policy and seed.
	Runs      []world.Figures `json:"runs"`
	Timelines []Timeline      `json:"timelines"`
}

// Incident is one of the study.
type Incident struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Seconds is the script's length, CountedFrom where the figures start.
	Seconds     float64 `json:"seconds"`
	CountedFrom float64 `json:"counted_from_s"`
	// LastChange is the second after which the script moves nothing any more;
	// 0 when it never does, and then there is nothing to recover from.
	LastChange float64       `json:"last_change_s"`
	Marks      []report.Mark `json:"marks"`
}

// Policy is one of the study.
type Policy struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// IncidentOf describes an incident whose books open at an instant in seconds.
func IncidentOf(inc *incident.Incident, countedFrom float64) Incident {
	out := Incident{Name: inc.Name, About: inc.About, Seconds: inc.Duration.Seconds(), CountedFrom: countedFrom, Marks: []report.Mark{}}
	for _, s := range inc.Script() {
		out.Marks = append(out.Marks, report.Mark{At: s.At.Seconds(), Text: s.Text})
	}
	_, last := world.ScriptSpan(inc)
	out.LastChange = last.Seconds()
	return out
}

// Cell is an incident under a policy, over all seeds.
type Cell struct {
	Incident string `json:"incident"`
	Policy   string `json:"policy"`
	Seeds    int    `json:"seeds"`
	Goodput  Spread `json:"goodput_ratio"`
	Waste    Spread `json:"waste_ratio"`
	P50      Spread `json:"p50_s"`
	P95      Spread `json:"p95_s"`
	P99      Spread `json:"p99_s"`
	Jain     Spread `json:"jain"`
	Flaps    Spread `json:"flaps"`
	// Collapsed is the probability of collapse, Recovered that of recovery,
	// of nothing where nothing changes; Recovery is over those that did.
	Collapsed Share  `json:"collapsed"`
	Recovered Share  `json:"recovered"`
	Recovery  Spread `json:"recover_s"`
}

// CellOf sums up the runs of one incident under one policy. changes says
// whether the script changes anything.
func CellOf(runs []world.Figures, changes bool) Cell {
	pick := func(of func(*world.Figures) float64) Spread {
		v := make([]float64, len(runs))
		for i := range runs {
			v[i] = of(&runs[i])
		}
		return spreadOf(v)
	}
	c := Cell{
		Seeds:   len(runs),
		Goodput: pick(func(f *world.Figures) float64 { return f.GoodputRatio }),
		Waste:   pick(func(f *world.Figures) float64 { return f.WasteRatio }),
		P50:     pick(func(f *world.Figures) float64 { return f.P50S }),
		P95:     pick(func(f *world.Figures) float64 { return f.P95S }),
		P99:     pick(func(f *world.Figures) float64 { return f.P99S }),
		Jain:    pick(func(f *world.Figures) float64 { return f.Jain }),
		Flaps:   pick(func(f *world.Figures) float64 { return float64(f.Flaps) }),
	}
	var recovery []float64
	collapsed := 0
	for i := range runs {
		c.Incident, c.Policy = runs[i].Incident, runs[i].Policy
		if runs[i].Collapsed {
			collapsed++
		}
		if s := runs[i].RecoverS; s != nil && changes {
			recovery = append(recovery, *s)
		}
	}
	c.Collapsed = shareOf(collapsed, len(runs))
	c.Recovered = shareOf(0, 0)
	if changes {
		c.Recovered = shareOf(len(recovery), len(runs))
	}
	c.Recovery = spreadOf(recovery)
	return c
}

// Cells sums up the study's runs, in their order.
func (s *Study) Cells() []Cell {
	var out []Cell
	for from := 0; from < len(s.Runs); {
		to := from
		for to < len(s.Runs) && s.Runs[to].Incident == s.Runs[from].Incident && s.Runs[to].Policy == s.Runs[from].Policy {
			to++
		}
		name := s.Runs[from].Incident
		k := slices.IndexFunc(s.Incidents, func(i Incident) bool { return i.Name == name })
		out = append(out, CellOf(s.Runs[from:to], k >= 0 && s.Incidents[k].LastChange > 0))
		from = to
	}
	return out
}

// Total is a policy over all incidents, each weighing the same.
type Total struct {
	Policy string `json:"policy"`
	// Goodput and Waste are means of the incidents' medians, Worst the least
	// median of an incident, at At.
	Goodput Number `json:"goodput_ratio"`
	Waste   Number `json:"waste_ratio"`
	Worst   Number `json:"worst"`
	At      string `json:"worst_at"`
	// Collapsed and Recovered count runs.
	Collapsed Share `json:"collapsed"`
	Recovered Share `json:"recovered"`
}

// Totals sums the cells up by policy.
func (s *Study) Totals(cells []Cell) []Total {
	out := make([]Total, 0, len(s.Policies))
	for _, p := range s.Policies {
		t := Total{Policy: p.Name}
		n, collapsed, recovered := 0, Share{}, Share{}
		for i := range cells {
			c := &cells[i]
			if c.Policy != p.Name {
				continue
			}
			if n == 0 || c.Goodput.Median < t.Worst {
				t.Worst, t.At = c.Goodput.Median, c.Incident
			}
			n++
			t.Goodput += c.Goodput.Median
			t.Waste += c.Waste.Median
			collapsed.K, collapsed.N = collapsed.K+c.Collapsed.K, collapsed.N+c.Collapsed.N
			recovered.K, recovered.N = recovered.K+c.Recovered.K, recovered.N+c.Recovered.N
		}
		t.Goodput, t.Waste = t.Goodput/Number(max(n, 1)), t.Waste/Number(max(n, 1))
		t.Collapsed, t.Recovered = shareOf(collapsed.K, collapsed.N), shareOf(recovered.K, recovered.N)
		out = append(out, t)
	}
	return out
}
