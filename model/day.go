package model

import (
	"fmt"
	"strings"
	"time"
)

// Daily is what a limit per day counts.
type Daily uint8

// What days count. Their numbers are part of the wire format and never change.
const (
	DailyRequests Daily = 0
	DailyTokens   Daily = 1
	DailyCost     Daily = 2 // millionths of the currency's unit
)

// NumDaily is the length of an array indexed by Daily.
const NumDaily = int(DailyCost) + 1

// String returns the name as it stands in configuration and metrics.
func (d Daily) String() string {
	switch d {
	case DailyRequests:
		return "requests_per_day"
	case DailyTokens:
		return "tokens_per_day"
	case DailyCost:
		return "cost_per_day"
	}
	return "unknown"
}

// Stage is how far a day's budget is used.
type Stage uint8

// The stages. Their numbers are part of the wire format and never change.
const (
	StageFree  Stage = 0
	StageSoft  Stage = 1 // above the limit that warns
	StageSpent Stage = 2 // nothing more starts until the day ends
)

// String returns the stage's name as it stands in JSON.
func (s Stage) String() string {
	switch s {
	case StageFree:
		return "free"
	case StageSoft:
		return "soft"
	case StageSpent:
		return "spent"
	}
	return "unknown"
}

// day counts what a channel, a quota group or a tenant uses in a day.
//
// What counts is what settled: calls that the provider did not refuse, the
// tokens that they used, what they cost. Once it reaches the hard limit nothing
// more starts until the day ends. What is in flight then comes on top, so near
// the end a channel gets no more slots than calls are left, at the mean of the
// day; see room.
//
// A day ends at an hour of the clock on the wall, so log time, which leaves out
// jumps, is not enough, and the log's timestamps, which jump, are not either. It
// ends once both the newest timestamp and Fleet.wall have passed ends; then ends
// moves on to the next such hour after that timestamp, as far as it is not more
// than a day ahead of wall. So ends never moves
// earlier by time, and whatever the clock does no day of the clock begins twice.
// A changed hour holds from the day after: a day that began by the clock lasts
// dayLeast at the least. Days are kept when what they belong to is no longer
// configured, until they end, and counted where nothing limits them, so that a
// configuration that goes, comes back or comes late gives nothing twice.
type day struct {
	name string // as DayOfChannel and the like make it
	// began is the timestamp by which it began, 0 for the first, of which only
	// the end is known; ends that by which it ends, reset the hour for it.
	// since is when it began in log time.
	began, ends, reset, since Nanos
	used                      [NumDaily]int64
	// rem is the rest of the cost below a millionth, in millionths of that.
	rem int64
	// stage, toldUsed and toldAt are what was last broadcast.
	stage    Stage
	toldUsed [NumDaily]int64
	toldAt   Nanos

	// What follows is the configuration's and no state.
	soft, hard [NumDaily]int64
	known      bool
	mark       dirtyMark
}

const (
	// wholeDay is the time between two resets.
	wholeDay = 24 * Hour
	// dayLeast is how long a day lasts at the least: an hour less, since a
	// clock that is put forward in spring makes a day so short.
	dayLeast = 23 * Hour
	// dayTold is how often figures are broadcast that moved by less than a
	// part in dayShare of their limit.
	dayTold  = 10 * Second
	dayShare = 100
	// maxDays bounds the days kept of what is no longer configured.
	maxDays = 1 << 17
)

// DayOfTenant returns the id of a tenant's day; a channel's and a quota group's
// are those of their budget pools.
func DayOfTenant(tenant string) string { return tenantDays + tenant }

// tenantDays is what the names of tenants' days begin with.
const tenantDays = "tenant/"

// dayEnd returns the first instant after t at which it is reset o'clock.
func dayEnd(t, reset Nanos) Nanos {
	return t + wholeDay - ((t-reset)%wholeDay+wholeDay)%wholeDay
}

// limited reports whether anything limits the day.
func (d *day) limited() bool { return d.soft != [NumDaily]int64{} || d.hard != [NumDaily]int64{} }

// told reports whether agents hear of the day: they show a tenant what it used.
func (d *day) told() bool { return d.limited() || strings.HasPrefix(d.name, tenantDays) }

// configure takes the limits in force and the hour at which the day ends. clock
// is the time by the log's clock.
func (d *day) configure(l *dayLimits, clock Nanos) {
	d.soft, d.hard, d.known = l.soft, l.hard, true
	if d.ends != 0 && d.reset == l.reset {
		return
	}
	d.reset = l.reset
	from := clock
	if d.began > 0 {
		from = max(from, d.began+dayLeast-1)
	}
	d.ends = dayEnd(from, l.reset)
}

// turn begins the next day at now; newest is the newest timestamp that is
// believed.
func (d *day) turn(now, newest Nanos) {
	d.began, d.ends, d.since = d.ends, dayEnd(newest, d.reset), now
	d.used, d.rem = [NumDaily]int64{}, 0
}

// count adds what settled. pico is the cost in millionths of a millionth.
func (d *day) count(requests, tokens, pico int64) {
	d.add(DailyRequests, requests)
	d.add(DailyTokens, tokens)
	d.rem += min(pico, maxUse)
	d.add(DailyCost, d.rem/1_000_000)
	d.rem %= 1_000_000
}

func (d *day) add(n Daily, more int64) { d.used[n] = min(d.used[n]+bounded(more), maxUse) }

// now returns the stage the day is at, and what brought it there.
func (d *day) now() (Stage, Daily) {
	for n, limit := range d.hard {
		if limit > 0 && d.used[n] >= limit {
			return StageSpent, Daily(n)
		}
	}
	for n, limit := range d.soft {
		if limit > 0 && d.used[n] >= limit {
			return StageSoft, Daily(n)
		}
	}
	return StageFree, 0
}

// room returns how many calls are left of the day at its mean, at least one
// while it is not spent; bound is false where nothing limits them.
func (d *day) room() (calls int64, bound bool) {
	for n, limit := range d.hard {
		if limit == 0 {
			continue
		}
		each := int64(1)
		if calls := d.used[DailyRequests]; calls > 0 {
			each = max(d.used[n]/calls, 1)
		}
		left := max((limit-d.used[n])/each, 1)
		if !bound || left < calls {
			calls, bound = left, true
		}
	}
	return calls, bound
}

// moved reports whether the figures are news worth a broadcast at now.
func (d *day) moved(now Nanos) bool {
	if !d.told() || d.used == d.toldUsed {
		return false
	}
	if now-d.toldAt >= dayTold {
		return true
	}
	for n := range d.used {
		limit := d.hard[n]
		if limit == 0 {
			limit = d.soft[n]
		}
		if limit > 0 && d.used[n]-d.toldUsed[n] > limit/dayShare {
			return true
		}
	}
	return false
}

// why says how the day stands in words.
func (d *day) why(stage Stage, n Daily, clock Nanos) string {
	kind, name, _ := strings.Cut(d.name, "/")
	who := kind + " " + name
	left := max(d.ends-clock, 0).Duration().Round(time.Second)
	switch stage {
	case StageSpent:
		return fmt.Sprintf("%s: %s reached; nothing starts for %s, until %s", who, d.of(n, d.hard[n]), left, instant(d.ends))
	case StageSoft:
		return fmt.Sprintf("%s: %s passed, the limit that warns; the day ends in %s", who, d.of(n, d.soft[n]), left)
	case StageFree:
	}
	return who + ": the day's budget is free"
}

// of writes a limit and its unit, such as "tokens_per_day 500000".
func (d *day) of(n Daily, limit int64) string {
	if n == DailyCost {
		return fmt.Sprintf("%s %d.%06d", n, limit/1_000_000, limit%1_000_000)
	}
	return fmt.Sprintf("%s %d", n, limit)
}

// instant writes a timestamp of the log.
func instant(at Nanos) string { return time.Unix(0, int64(at)).UTC().Format("2006-01-02 15:04 UTC") }

// cost returns what a call cost, in millionths of a millionth of the currency's
// unit: a price is millionths per million tokens.
func (p *Price) cost(a *Attempt) int64 {
	cached := min(max(a.Cached, 0), max(a.In, 0))
	fresh := max(a.In, 0) - cached
	sum := mulDiv(int64(fresh), p.Input, 1)
	sum = min(sum, maxUse) + min(mulDiv(int64(cached), p.Cached, 1), maxUse)
	return min(sum, maxUse) + min(mulDiv(int64(max(a.Out, 0)), p.Output, 1), maxUse)
}

// spent returns the tokens that an attempt used of what c is limited to, as
// use.spentOf has it.
func (a *Attempt) spent(c *ChannelConfig) Tokens {
	if a.Class.Refused() {
		return 0 // the day's counts are of what was taken
	}
	return use{a.Class, a.Status, max(a.In, 0), max(a.Out, 0), a.UsageKnown}.spentOf(c, max(a.Reserved, 0))
}
