package model

// gateUse is how the calls of one priority used a channel lately.
//
// A long call takes its slot from all short ones that come while it runs. If it
// took every slot that is free for a moment, a channel would fill with long
// calls until the short ones wait all the time, whatever their priority: it only
// says who goes first when a slot gets free. So a call that is expected to take
// useLong times as long as the more urgent ones leaves free what those need:
// by Little's law the time that they lately spent, waiting included, over the
// time in which they came. Where they wait for long that is more, and they get
// their slots back as long calls end.
type gateUse struct {
	running int64
	// calls, took and stay are sums over calls that ended well: their number,
	// time in flight, and time since they came. From is since when they are
	// counted, each half of what was before it.
	calls      int64
	took, stay Nanos
	from       Nanos
}

const (
	// useHalf is the time in which half is forgotten: some ten short calls.
	useHalf = 10 * Second
	// useLong is from how many times their length on a call is long. What is as
	// short as they are gives its slot back soon enough.
	useLong = 4
)

func (u *gateUse) fade(now Nanos) {
	if steps := (now - u.from) / useHalf; steps > 0 {
		u.calls, u.took, u.stay = u.calls>>min(steps, 62), u.took>>min(steps, 62), u.stay>>min(steps, 62)
		u.from += steps * useHalf
	}
}

// done counts a call that ended well.
func (u *gateUse) done(now, took, stay Nanos) {
	u.fade(now)
	u.calls++
	u.took, u.stay = u.took+took, u.stay+stay
}

// yields reports whether a free slot of c is not for r, since more urgent calls
// need it. The first call of its kind is never kept waiting.
func (g *Gate) yields(now Nanos, r *gateRequest, c *gateChannel) bool {
	var all gateUse
	for p := int(r.priority) + 1; p < NumPriorities; p++ {
		u := &c.use[p]
		u.fade(now)
		all.running += u.running
		all.calls += u.calls
		all.took += u.took
		if u.stay > 0 {
			all.stay += u.stay / (useHalf + now - u.from)
		}
	}
	if all.calls == 0 || c.inflight == all.running {
		return false
	}
	if mean, _ := c.pace.expect(now, r.tokens); mean < useLong*all.took/Nanos(all.calls) {
		return false
	}
	return c.share(now, g.lost, g.met)-c.used(now) <= int64(all.stay)-all.running
}
