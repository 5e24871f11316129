package model

import "testing"

// TestPaceBySize holds that a size tells its own pace once enough calls of it
// ended, and that until then it has that of all, less in proportion.
func TestPaceBySize(t *testing.T) {
	var p gatePace
	now := Hour
	want := func(what string, tokens Tokens, mean, most Nanos) {
		t.Helper()
		gotMean, gotMost := p.expect(now, tokens)
		if gotMean != mean || gotMost != most {
			t.Errorf("%s: got %s and %s, want %s and %s", what, gotMean, gotMost, mean, most)
		}
	}
	want("nothing seen", 1000, 0, 0)
	for range 3 * paceWeight {
		p.add(now, 8*Second, 4000)
	}
	want("its own", 4000, 8*Second, 8*Second)
	want("a quarter of the size", 1000, 2*Second, 2*Second)
	want("larger ones", 64_000, 8*Second, 8*Second)
	for range paceLeast {
		p.add(now, Second, 500)
	}
	want("its own once there are enough", 500, Second, Second)
	now += paceLasts
	want("half after a time without a call", 4000, 4*Second, 4*Second)
	now += 100 * paceLasts
	want("nothing in the end", 4000, 0, 0)
}

// TestPaceMost holds how far beyond the mean nearly all calls end.
func TestPaceMost(t *testing.T) {
	var p gatePace
	for i := range 200 {
		p.add(Hour, Second+Nanos(i%2)*2*Second, 100)
	}
	mean, most := p.expect(Hour, 100)
	if mean < 3*Second/2 || mean > 5*Second/2 || most < mean+5*Second || most > mean+7*Second {
		t.Errorf("calls of 1 and 3 s in turn are expected to take %s, at most %s; want about 2 and 8", mean, most)
	}
}

// TestPaceLate holds when a call is work for nobody: with less time left than
// a call takes, and with less than nearly all take where another has more.
func TestPaceLate(t *testing.T) {
	c := newGateChannel("a")
	for i := range 200 {
		c.pace.add(Hour, Second+Nanos(i%2)*2*Second, 100)
	}
	g, route := &Gate{queue: newGateQueue()}, &gateRoute{}
	q := &g.queue
	wait := func(number uint64, priority Priority, left Nanos) *gateRequest {
		r := &gateRequest{number: number, route: route, tokens: 100, priority: priority, rank: uint8(priority), deadline: Hour + left}
		q.push(r)
		return r
	}
	r := wait(1, PriorityNormal, 4*Second)
	late := func(what string, want bool) {
		t.Helper()
		if got := g.late(Hour, r, c, 0); got != want {
			t.Errorf("%s: late is %t, want %t", what, got, want)
		}
	}
	late("alone", false)
	batch := wait(2, PriorityBatch, Minute)
	late("beside what is worth less", false)
	q.remove(batch)
	short := wait(3, PriorityNormal, 5*Second)
	late("beside one with no more time", false)
	long := wait(4, PriorityNormal, Minute)
	late("beside one with more", true)
	q.remove(short)
	q.remove(long)
	r.deadline = Hour + Second
	late("with less than a call takes", true)
}

// TestJammed holds that calls given up one after the other keep their slots for
// as long as they ran, that few do not, and that all make the pace slower.
func TestJammed(t *testing.T) {
	g := newGateAt(8)
	now := 2 * Second
	call := func(class Class, took Nanos) {
		t.Helper()
		p := g.Ask(now, Ask{Request: 1, Route: "r", Tokens: 100, Deadline: now + Minute}).Permit
		if p.ID == 0 {
			t.Fatalf("not admitted at %s", now)
		}
		now += took
		g.Done(now, p.ID, Outcome{Class: class, UsageKnown: true, In: 1})
	}
	held := func() (n int) {
		for _, c := range g.channels {
			n += len(c.held)
		}
		return n
	}
	for range 40 {
		call(ClassOK, Second)
	}
	call(ClassCanceled, Second/2)
	if held() > 0 {
		t.Error("a call given up early holds its slot")
	}
	for range 40 {
		call(ClassCanceled, 10*Second)
		if held() > 0 {
			break
		}
	}
	if got := held(); got != 1 {
		t.Fatalf("%d slots are held after many calls were given up", got)
	}
	for _, c := range g.channels {
		mean, _ := c.pace.expect(now, 100)
		if len(c.held) == 1 && (c.held.next() != now+10*Second || mean < 2*Second) {
			t.Errorf("held until %s at %s, calls are expected to take %s", c.held.next(), now, mean)
		}
	}
	now += Minute
	for range 8 {
		call(ClassOK, Second)
	}
	call(ClassCanceled, 30*Second)
	if got := held(); got > 1 {
		t.Errorf("%d slots are held though calls end well", got)
	}
}
