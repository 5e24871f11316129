package events

import (
	"cmp"
	"slices"
	"time"

	"weir/model"
)

// Board makes the messages of an Outbox's PutLimits such that an agent which
// gets the last full set and the last message of changes has everything: a
// message of changes repeats every change since the last full set. So both
// can be kept as one message each, a lost message of changes is healed by the
// next one, and an agent needs nothing but to compare revisions.
//
// The zero value is ready. It belongs to one goroutine.
type Board struct {
	term     uint64
	complete bool // a full set of this term was seen, so the board knows every channel and day
	channels map[string]posted
	quotas   map[string]postedQuota
}

// postedQuota is what was last told of a day.
type postedQuota struct {
	quota   model.Quota
	at      time.Time
	changed bool
}

// posted is what was last told of a channel.
type posted struct {
	limit   model.ChannelLimit
	at      time.Time
	changed bool // since the last full set
}

// Post takes in a broadcast and returns the message to send in its place. A
// message of changes that would repeat more than half of the channels and days becomes
// a full set. Settled follows when a message was sent.
func (b *Board) Post(l *model.LimitSet, full bool, now time.Time) (*model.LimitSet, bool) {
	if full || l.Term != b.term || b.channels == nil {
		b.channels = make(map[string]posted, len(l.Channels))
		b.quotas = make(map[string]postedQuota, len(l.Quotas))
		b.term, b.complete = l.Term, full
	}
	changed := 0
	for _, c := range l.Channels {
		b.channels[c.Channel] = posted{limit: c, at: now, changed: true}
	}
	for _, q := range l.Quotas {
		b.quotas[q.Name] = postedQuota{quota: q, at: now, changed: true}
	}
	for _, p := range b.channels {
		if p.changed {
			changed++
		}
	}
	for _, p := range b.quotas {
		if p.changed {
			changed++
		}
	}
	full = b.complete && 2*changed > len(b.channels)+len(b.quotas)
	return b.message(l, full, now), full
}

// Settled says that the last message was sent; full as Post returned it.
func (b *Board) Settled(full bool) {
	if !full {
		return
	}
	for name, p := range b.channels {
		p.changed = false
		b.channels[name] = p
	}
	for name, p := range b.quotas {
		p.changed = false
		b.quotas[name] = p
	}
}

// mostQuotas bounds the days of one message: with more it would not fit one of
// the bus. An agent takes what it does not hear of for free.
const mostQuotas = 4096

// mostPressing returns quotas by name, of too many those that are most used up.
func mostPressing(quotas []model.Quota) []model.Quota {
	byName := func(x, y model.Quota) int { return cmp.Compare(x.Name, y.Name) }
	if len(quotas) > mostQuotas {
		slices.SortFunc(quotas, func(x, y model.Quota) int { return cmp.Or(cmp.Compare(y.Stage, x.Stage), byName(x, y)) })
		quotas = quotas[:mostQuotas]
	}
	slices.SortFunc(quotas, byName)
	return quotas
}

func (b *Board) message(l *model.LimitSet, full bool, now time.Time) *model.LimitSet {
	out := &model.LimitSet{Term: l.Term, Seq: l.Seq}
	for _, p := range b.channels {
		if !full && !p.changed {
			continue
		}
		c := p.limit
		c.Wait = max(0, c.Wait-model.Nanos(now.Sub(p.at))) // a wait counts from the message it is in
		out.Channels = append(out.Channels, c)
	}
	slices.SortFunc(out.Channels, func(x, y model.ChannelLimit) int { return cmp.Compare(x.Channel, y.Channel) })
	for _, p := range b.quotas {
		if !full && !p.changed {
			continue
		}
		q := p.quota
		q.Reset = max(0, q.Reset-model.Nanos(now.Sub(p.at)))
		out.Quotas = append(out.Quotas, q)
	}
	out.Quotas = mostPressing(out.Quotas)
	return out
}
