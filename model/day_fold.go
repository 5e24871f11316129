package model

import (
	"iter"
	"slices"
	"strings"
)

// clock returns the time of day by the log: what its newest timestamp says, but
// no later than what can have passed.
func (f *Fleet) clock() Nanos { return max(min(f.last, f.wall), 0) }

// moveWall moves wall to the record r, which adds span to log time. A timestamp
// that is further ahead may be of a clock that jumped, or tell of time in which
// everything slept: it is believed once it has stayed ahead by as much for a day,
// and at the begin of a term, since nothing else knows how long nobody was there.
func (f *Fleet) moveWall(r Record, span Nanos) {
	if f.wall == 0 {
		f.wall = min(max(f.last, 0), 5*maxGap)
	}
	switch r.Fact.(type) {
	case *Lead, *Rebase:
		if r.Time > f.wall {
			f.wall += min(r.Time-f.wall, maxGap)
		}
		f.ahead, f.aheadBy = 0, 0
	default:
		f.wall += span
		f.catchUp(r.Time, span)
	}
	f.wall = min(f.wall, maxWall)
}

// catchUp moves wall towards a timestamp that is ahead of it.
func (f *Fleet) catchUp(at, span Nanos) {
	lag := Nanos(0)
	if at > f.wall {
		lag = min(at-f.wall, maxGap)
	}
	same := f.ahead > 0 && max(lag-f.aheadBy, f.aheadBy-lag) <= wallSlack
	switch {
	case lag <= wallSlack: // clocks are not all alike
		f.wall, f.ahead, f.aheadBy = f.wall+min(lag, span), 0, 0
	case !same:
		f.ahead, f.aheadBy = max(f.now, 1), lag
	case f.now-f.ahead >= wholeDay:
		f.wall, f.ahead, f.aheadBy = f.wall+lag, 0, 0
	}
}

// wallSlack is how much a timestamp may be ahead without being a jump.
const wallSlack = Second

// maxWall bounds wall, so that days can be reckoned from it.
const maxWall = Nanos(1) << 61

func (f *Fleet) day(name string) *day {
	i, ok := slices.BinarySearchFunc(f.days, name, func(d *day, n string) int { return compare(d.name, n) })
	if !ok {
		return nil
	}
	return f.days[i]
}

// dayOfTenant returns the day of a tenant. Attempts that follow each other are
// mostly of the same one.
func (f *Fleet) dayOfTenant(tenant string) *day {
	if f.payer != tenant {
		f.payer, f.pays = tenant, f.findDay(tenant)
	}
	return f.pays
}

// findDay looks for the day of a tenant without making its name.
func (f *Fleet) findDay(tenant string) *day {
	i, ok := slices.BinarySearchFunc(f.days, tenant, func(d *day, t string) int {
		if name, of := strings.CutPrefix(d.name, tenantDays); of {
			return compare(name, t)
		}
		return compare(d.name, tenantDays)
	})
	if !ok {
		return nil
	}
	return f.days[i]
}

// addDay returns the day of that name, making it when it is new.
func (f *Fleet) addDay(name string) (d *day, fresh bool) {
	i, ok := slices.BinarySearchFunc(f.days, name, func(d *day, n string) int { return compare(d.name, n) })
	if !ok {
		f.days = slices.Insert(f.days, i, &day{name: name})
	}
	return f.days[i], !ok
}

// dayLimits are what a configuration limits per day. group is set for a quota
// group.
type dayLimits struct {
	name, group string
	soft, hard  [NumDaily]int64
	reset       Nanos
}

// days yields what counts by the day, limited or not.
func (c *Config) days() iter.Seq[dayLimits] {
	return func(yield func(dayLimits) bool) {
		for i := range c.Channels {
			l := &c.Channels[i].Limits
			if !yield(dayLimits{name: PoolOfChannel(c.Channels[i].Name), hard: l.daily(), reset: l.DayReset}) {
				return
			}
		}
		for i := range c.Groups {
			l := &c.Groups[i].Limits
			if !yield(dayLimits{name: PoolOfGroup(c.Groups[i].Name), group: c.Groups[i].Name, hard: l.daily(), reset: l.DayReset}) {
				return
			}
		}
		for i := range c.Tenants {
			t := &c.Tenants[i]
			if !yield(dayLimits{name: DayOfTenant(t.Name), soft: t.soft(), hard: t.hard(), reset: t.DayReset}) {
				return
			}
		}
	}
}

// setDays takes the limits per day of the configuration, which is new.
func (f *Fleet) setDays() {
	for _, d := range f.days {
		d.known, d.soft, d.hard = false, [NumDaily]int64{}, [NumDaily]int64{}
	}
	for l := range f.config.days() {
		d, fresh := f.addDay(l.name)
		if fresh && l.group != "" {
			f.sumDays(d, l.group)
		}
		d.configure(&l, f.clock())
	}
	f.forgetDays()
	f.linkDays()
}

// attachDays gives the days that were read their limits. One that is missing,
// since it was not counted when they were written, is for Apply to make.
func (f *Fleet) attachDays() {
	complete := true
	for l := range f.config.days() {
		if d := f.day(l.name); d != nil {
			d.soft, d.hard, d.known = l.soft, l.hard, true
		} else {
			complete = false
		}
	}
	f.linkDays()
	f.daysSet = complete
}

// sumDays makes the day of a group that is new begin with what its channels
// used, which may be known.
func (f *Fleet) sumDays(d *day, group string) {
	for i := range f.config.Channels {
		c := &f.config.Channels[i]
		if !slices.Contains(c.Groups, group) {
			continue
		}
		if of := f.day(PoolOfChannel(c.Name)); of != nil {
			for n := range d.used {
				d.add(Daily(n), of.used[n])
			}
		}
	}
}

// forgetDays drops days of what is not configured beyond maxDays.
func (f *Fleet) forgetDays() {
	over := len(f.days) - maxDays
	f.days = slices.DeleteFunc(f.days, func(d *day) bool {
		gone := over > 0 && !d.known
		if gone {
			over--
			f.dirty.gone("day/" + d.name)
		}
		return gone
	})
}

// linkDays sets what follows from the days: which ones a channel counts in, and
// when the first ends.
func (f *Fleet) linkDays() {
	f.daysSet, f.dayEnds, f.dayWake = true, forever, forever
	f.payer, f.pays = "", nil
	for _, d := range f.days {
		f.dayEnds = min(f.dayEnds, d.ends)
		if d.limited() {
			f.dayWake = min(f.dayWake, d.ends)
		}
	}
	for _, c := range f.channels {
		c.days = c.days[:0]
		for _, name := range c.drawn() {
			if d := f.day(name); d != nil {
				c.days = append(c.days, d)
			}
		}
	}
}

func (l *Limits) daily() [NumDaily]int64 {
	return [NumDaily]int64{DailyRequests: l.RequestsPerDay, DailyTokens: int64(l.TokensPerDay)}
}

func (t *TenantConfig) soft() [NumDaily]int64 {
	return [NumDaily]int64{t.RequestsPerDaySoft, int64(t.TokensPerDaySoft), t.CostPerDaySoft}
}

func (t *TenantConfig) hard() [NumDaily]int64 {
	return [NumDaily]int64{t.RequestsPerDayHard, int64(t.TokensPerDayHard), t.CostPerDayHard}
}

// bill counts an attempt in the days that it belongs to: not in one that began
// after it had ended.
func (f *Fleet) bill(c *channel, a *Attempt, fx *Effects) {
	var requests int64
	if !a.Class.Refused() {
		requests = 1
	}
	tokens, pico := int64(a.spent(c.cfg)), c.cfg.Price.cost(a)
	if requests == 0 && pico == 0 {
		return
	}
	for _, d := range c.days {
		if f.ended(a) >= d.since {
			f.billDay(d, requests, tokens, pico, fx)
		}
	}
	if a.Tenant == "" {
		return
	}
	if d := f.dayOfTenant(a.Tenant); d != nil && f.ended(a) >= d.since {
		f.billDay(d, requests, tokens, pico, fx)
	}
}

func (f *Fleet) billDay(d *day, requests, tokens, pico int64, fx *Effects) {
	d.count(requests, tokens, pico)
	f.dirty.day(d)
	f.judgeDay(d, fx)
}

// billSummary counts calls of which only sums are known.
func (f *Fleet) billSummary(c *channel, n *SummaryCount, fx *Effects) {
	if n.Class.Refused() {
		return
	}
	a := Attempt{In: n.In, Out: n.Out}
	for _, d := range c.days {
		f.billDay(d, int64(min(n.Attempts, uint64(maxUse))), bounded(int64(n.In))+bounded(int64(n.Out)), c.cfg.Price.cost(&a), fx)
	}
}

// judgeDays does what follows a new configuration.
func (f *Fleet) judgeDays(fx *Effects) {
	for _, d := range f.days {
		if d.told() && d.used != [NumDaily]int64{} {
			f.tellDay(d, fx)
		}
		f.judgeDay(d, fx)
	}
}

// judgeDay brings the stage of a day up to date and tells what is news.
func (f *Fleet) judgeDay(d *day, fx *Effects) {
	stage, n := d.now()
	if stage == d.stage {
		if d.moved(f.now) {
			f.tellDay(d, fx)
		}
		return
	}
	why := d.why(stage, n, f.clock())
	before := d.stage
	d.stage = stage
	f.tellDay(d, fx)
	kind, _, _ := strings.Cut(d.name, "/")
	if kind == "tenant" {
		f.decide(fx, Decision{Rule: RuleTenant, Before: int64(before), After: int64(stage), Reason: why})
		fx.Now = true
		return
	}
	for _, c := range f.channels {
		if slices.Contains(c.days, d) {
			c.advance(f.now)
			f.decide(fx, Decision{Channel: c.name, Rule: RuleDay, Reason: why})
			c.wants, c.urgent = true, true
			f.want(c)
		}
	}
	fx.Now = true
}

// tellDay asks for a day's figures to be broadcast.
func (f *Fleet) tellDay(d *day, fx *Effects) {
	d.toldUsed, d.toldAt = d.used, f.now
	fx.limit(d.name)
	f.dirty.day(d)
}

// endDays begins the days that are due.
func (f *Fleet) endDays(fx *Effects) {
	if f.clock() < f.dayEnds {
		return
	}
	var gone []string
	for _, d := range f.days {
		switch {
		case f.clock() < d.ends:
		case !d.known:
			gone = append(gone, d.name)
		default:
			d.turn(f.now, min(f.last, f.wall+wholeDay))
			if d.told() && d.toldUsed != [NumDaily]int64{} {
				f.tellDay(d, fx)
			}
			f.judgeDay(d, fx)
			f.dirty.day(d)
		}
	}
	for _, name := range gone {
		f.days = slices.DeleteFunc(f.days, func(d *day) bool { return d.name == name })
		f.dirty.gone("day/" + name)
	}
	f.linkDays()
}

// spent returns for how long no call may start on c because a day's budget is
// used up, 0 for none.
func (f *Fleet) spent(c *channel) Nanos {
	var wait Nanos
	for _, d := range c.days {
		if d.stage == StageSpent {
			wait = max(wait, d.ends-f.clock(), 1)
		}
	}
	return wait
}

// dayRoom returns the least number of calls left in the days that c counts in;
// bound is false where nothing limits them.
func (c *channel) dayRoom() (calls int64, bound bool) {
	for _, d := range c.days {
		if n, ok := d.room(); ok && (!bound || n < calls) {
			calls, bound = n, true
		}
	}
	return calls, bound
}

func (c *coder) clock(f *Fleet) {
	num(c, &f.wall)
	num(c, &f.ahead)
	num(c, &f.aheadBy)
}

func (c *coder) day(d *day) {
	num(c, &d.began)
	num(c, &d.ends)
	num(c, &d.reset)
	num(c, &d.since)
	for _, list := range []*[NumDaily]int64{&d.used, &d.toldUsed} {
		for i := range list {
			num(c, &list[i])
		}
	}
	num(c, &d.rem)
	num(c, &d.stage)
	num(c, &d.toldAt)
}

func (d *day) sound() bool {
	for i := range d.used {
		if d.used[i] < 0 || d.used[i] > maxUse || d.toldUsed[i] < 0 {
			return false
		}
	}
	return d.stage <= StageSpent && d.rem >= 0 && d.rem < 1_000_000 && d.reset >= 0 && d.reset < wholeDay && d.ends > 0
}

func (s *dirtySet) day(d *day) { s.once(&d.mark, "day/", d.name) }
