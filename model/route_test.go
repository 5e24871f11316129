package model

import "testing"

// TestRouteFits holds which tiers a need may use.
func TestRouteFits(t *testing.T) {
	a := newGateChannel("a")
	a.cfg = &ChannelConfig{}
	route := &gateRoute{}
	one := []WeightedChannel{{"a", 1}}
	route.compile(&RouteConfig{Tiers: []TierConfig{
		{Channels: one}, {Channels: one, Capability: "light"}, {}, {Channels: []WeightedChannel{{"gone", 1}}}, {Rule: "busy"},
	}}, func(name string) *gateChannel {
		if name == "a" {
			return a
		}
		return nil
	})
	for need, want := range map[string]uint32{"": 0b10011, "light": 0b10011, "heavy": 0b10001} {
		if got := route.fits(need); got != want {
			t.Errorf("need %q fits %05b, want %05b", need, got, want)
		}
	}
	if i := nextTier(0b10011, 2); i != 4 {
		t.Errorf("after tier 1 comes %d, want 4", i)
	}
	if i := nextTier(0b10011, 5); i != -1 {
		t.Errorf("after the last tier comes %d", i)
	}
	if i := nextTier(1<<31, 32); i != -1 {
		t.Errorf("after tier 31 comes %d", i)
	}
	many := &RouteConfig{}
	for range 40 {
		many.Tiers = append(many.Tiers, TierConfig{Rule: "x"})
	}
	route.compile(many, func(string) *gateChannel { return nil })
	if got := route.fits(""); got != ^uint32(0) {
		t.Errorf("forty tiers fit %b", got)
	}
}

// TestRouteOpens holds when tiers open.
func TestRouteOpens(t *testing.T) {
	spare := newGateChannel("spare")
	r := &gateRequest{
		tokens: 1, arrived: 10 * Second, deadline: Minute, tiers: 0b111,
		route: &gateRoute{core: -1, other: 3 * Second, tiers: []gateTier{{}, {choices: []gateChoice{{channel: spare}}}, {}}},
	}
	for level, want := range map[uint8]Nanos{0: 13 * Second, 1: 16 * Second, 2: gateNever, 200: gateNever} {
		if got := r.opens(10*Second, level); got != want {
			t.Errorf("after level %d at %s, want %s", level, got, want)
		}
	}
	spare.pace.add(10*Second, 20*Second, 1)
	if got := r.opens(10*Second, 0); got != 13*Second {
		t.Errorf("with time for it the spare opens at %s", got)
	}
	r.deadline = 51 * Second
	if got := r.opens(10*Second, 0); got != 11*Second {
		t.Errorf("40 s before the deadline, with calls of 20 s, the spare opens at %s", got)
	}
	r.core = true
	if got := r.opens(10*Second, 0); got != gateNever {
		t.Errorf("core work goes on at %s", got)
	}
	r.route.core = gateNever
	if got := r.opens(10*Second, 1); got != gateNever {
		t.Errorf("an endless wait ends at %s", got)
	}
}

// TestRouteDrainBySize holds that small requests are not told the wait of the
// large ones that they pass, nor those that nobody passes another one.
func TestRouteDrainBySize(t *testing.T) {
	var d routeDrain
	d.begin(100 * Second)
	d.waiting[sizeOf(100)], d.waiting[sizeOf(5000)] = 6, 200
	for i := range 50 {
		tokens := Tokens(100)
		if i%10 == 0 {
			tokens = 5000
		}
		d.add(100*Second+Nanos(i)*200*Millisecond, tokens)
	}
	for _, tt := range []struct {
		tokens   Tokens
		position int
		want     Nanos
	}{
		{100, 206, 10 * Second * 6 / 45},
		{100, 2, 400 * Millisecond},
		{5000, 206, 206 * 200 * Millisecond},
		{10, 206, 0},
	} {
		if got := d.wait(110*Second, tt.tokens, tt.position); got != tt.want {
			t.Errorf("%d tokens at %d wait %s, want %s", tt.tokens, tt.position, got, tt.want)
		}
	}
	if got := d.sum; got != (drainCell{6: 45, 12: 5}) {
		t.Errorf("counted %v", got)
	}
	if d.roll(124 * Second); d.sum.upTo(gatePaces-1) != 5 {
		t.Errorf("%d of the last second are left", d.sum.upTo(gatePaces-1))
	}
}

// TestRouteDrain measures the pace of a backlog and forgets.
func TestRouteDrain(t *testing.T) {
	var d routeDrain
	if p := d.pace(Hour); p != 0 {
		t.Errorf("pace %s before anything", p)
	}
	d.begin(100 * Second)
	for i := range 50 {
		d.add(100*Second+Nanos(i)*200*Millisecond, 100)
	}
	if p := d.pace(110 * Second); p != 200*Millisecond {
		t.Errorf("pace %s, want 200ms", p)
	}
	d.begin(110 * Second)
	for range routeDrainLeast {
		d.add(110*Second, 100)
	}
	if p := d.pace(110*Second + 999*Millisecond); p != 0 {
		t.Errorf("pace %s within a second of the backlog's begin", p)
	}
	if p := d.pace(114 * Second); p != Second {
		t.Errorf("pace %s, want 1s", p)
	}
	if p := d.pace(Hour); p != 0 {
		t.Errorf("pace %s an hour later", p)
	}
}
