package model

// FleetDay is how the day of a channel, a quota group or a tenant stands.
type FleetDay struct {
	// Name is as PoolOfChannel, PoolOfGroup and DayOfTenant make it.
	Name string `json:"name"`
	// Stage is free, soft or spent.
	Stage string `json:"stage"`
	At    Stage  `json:"-"`
	// Reset is how long the day lasts, Ends when that is by the log's clock, in
	// Unix nanoseconds.
	Reset Nanos `json:"reset_ns"`
	Ends  Nanos `json:"ends_unix_ns"`
	// Cost is in millionths of the currency's unit.
	Requests DayFigure `json:"requests"`
	Tokens   DayFigure `json:"tokens"`
	Cost     DayFigure `json:"cost_millionths"`
	Reason   string    `json:"reason"`
}

// DayFigure is what is used of one limit per day.
type DayFigure struct {
	Used int64 `json:"used"`
	// Soft and Hard are 0 for none, Left is what is left of Hard, negative
	// without one.
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
	Left int64 `json:"left"`
}

// Limited reports whether anything limits the day.
func (d *FleetDay) Limited() bool {
	return d.Requests.limited() || d.Tokens.limited() || d.Cost.limited()
}

func (f DayFigure) limited() bool { return f.Soft > 0 || f.Hard > 0 }

func (d *day) figure(n Daily) DayFigure {
	f := DayFigure{Used: d.used[n], Soft: d.soft[n], Hard: d.hard[n], Left: -1}
	if f.Hard > 0 {
		f.Left = max(f.Hard-f.Used, 0)
	}
	return f
}

// dayViews copies the days of what is configured.
func (f *Fleet) dayViews() []FleetDay {
	var all []FleetDay
	for _, d := range f.days {
		if !d.known {
			continue
		}
		q := f.quota(d)
		all = append(all, FleetDay{
			Name: d.name, Stage: q.Stage.String(), At: q.Stage, Reset: q.Reset, Ends: d.ends, Reason: q.Reason,
			Requests: d.figure(DailyRequests), Tokens: d.figure(DailyTokens), Cost: d.figure(DailyCost),
		})
	}
	return all
}
