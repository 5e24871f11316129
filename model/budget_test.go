package model

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPoolFeedIsTheDumbOne compares the division with giving one request at a
// time to whoever of those that lack one holds fewest unused.
func TestPoolFeedIsTheDumbOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pool{}
		p.requests.set(1000, 1000)
		n := rapid.IntRange(1, 8).Draw(t, "agents")
		for i := range n {
			g := p.grant(fmt.Sprint(i))
			g.usedRequests = rapid.Int64Range(0, 50).Draw(t, "used")
			g.waitingRequests = rapid.Int64Range(0, 20).Draw(t, "waiting")
			g.requests = g.usedRequests + rapid.Int64Range(0, 10).Draw(t, "unused")
			g.turn = uint64(rapid.IntRange(0, 3).Draw(t, "turn"))
		}
		p.requests.Level = rapid.Int64Range(0, 60).Draw(t, "level")
		want := make([]int64, n)
		for i := range p.grants {
			want[i] = p.grants[i].requests - p.grants[i].usedRequests
		}
		level := p.requests.Level
		for ; level > 0; level-- {
			least := -1
			for i := range want {
				if want[i] < p.grants[i].waitingRequests && (least < 0 || want[i] < want[least]) {
					least = i
				}
			}
			if least < 0 {
				break
			}
			want[least]++
		}
		p.feed(1, func(string) {})
		got := make([]int64, n)
		for i := range p.grants {
			got[i] = p.grants[i].requests - p.grants[i].usedRequests
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || p.requests.Level != level {
			t.Fatalf("unused %v with %d left, want %v with %d", got, p.requests.Level, want, level)
		}
	})
}

// poolWorld plays agents that start only what they were granted, or at their
// safe rate while they are cut off, over messages that come late or never.
type poolWorld struct {
	t      *rapid.T
	p      *pool
	par    Params
	now    Nanos
	rev    uint64
	agents map[string]*poolAgent
	// issued is all that was ever granted to agents that are gone, refilled
	// what time can have brought at most.
	issued   [2]int64
	refilled [2]float64
}

type poolAgent struct {
	granted, used, waiting [2]int64 // requests, tokens
	rev                    uint64
	away                   Nanos
	safe                   [2]int64
}

// issuedNow returns what was handed out or is in the bucket, in all. Only
// refilling can raise it.
func (w *poolWorld) issuedNow() [2]int64 {
	sum := [2]int64{w.issued[0] + w.p.requests.Level, w.issued[1] + w.p.tokens.Level}
	for i := range w.p.grants {
		r, t := w.p.grants[i].debited()
		sum[0] += r
		sum[1] += t
	}
	return sum
}

// full reports of which dimensions the pool has all that it may: what agents
// hold unused is a part of that unless somebody lacks more, and once nobody
// does, the one request that was saved up for it is too much. So is what an
// agent holds beyond a minute.
func (w *poolWorld) full() (requests, tokens bool) {
	r, t := w.p.unused()
	if w.p.lacking {
		r, t = 0, 0
	}
	requests, tokens = w.p.requests.Level+r >= w.p.requests.Burst, w.p.tokens.Level+t >= w.p.tokens.Burst
	for i := range w.p.grants {
		g := &w.p.grants[i]
		requests = requests || g.requests-g.usedRequests >= w.p.requests.Rate
		tokens = tokens || g.tokens-g.usedTokens >= w.p.tokens.Rate
	}
	return requests, tokens
}

func (w *poolWorld) drop(name string, debited bool) {
	i, ok := searchGrant(w.p.grants, name)
	if !ok {
		return
	}
	g := &w.p.grants[i]
	w.issued[0] += g.usedRequests
	w.issued[1] += g.usedTokens
	if debited {
		r, t := g.debited()
		w.issued[0] += r - g.usedRequests
		w.issued[1] += t - g.usedTokens
	}
}

func (w *poolWorld) step() {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(w.t, "agent")
	a := w.agents[name]
	if a == nil {
		a = &poolAgent{}
		w.agents[name] = a
	}
	w.rev++
	switch rapid.IntRange(0, 12).Draw(w.t, "what") {
	case 0, 1, 2:
		span := Nanos(rapid.Int64Range(0, int64(20*Second)).Draw(w.t, "span"))
		w.now += span
		w.refilled[0] += float64(w.p.requests.Rate) * float64(span) / float64(Minute)
		w.refilled[1] += float64(w.p.tokens.Rate) * float64(span) / float64(Minute)
	case 3, 4, 5: // starts what it may
		if a.away > 0 {
			span := w.now - a.away
			a.used[0] = max(a.used[0], a.safe[0]+mulDiv(w.safe(name)[0], int64(span), 1000*int64(Minute)))
			return
		}
		for range rapid.IntRange(0, 20).Draw(w.t, "starts") {
			if tokens := int64(rapid.IntRange(1, 900).Draw(w.t, "tokens")); a.used[0] < a.granted[0] && a.used[1]+tokens <= a.granted[1] {
				a.used[0]++
				a.used[1] += tokens
			}
		}
	case 6, 7: // reports
		a.waiting = [2]int64{rapid.Int64Range(0, 40).Draw(w.t, "waiting"), 0}
		a.waiting[1] = a.waiting[0] * rapid.Int64Range(1, 900).Draw(w.t, "each")
		a.away = 0
		w.p.report(name, &PoolReport{
			UsedRequests: a.used[0], UsedTokens: Tokens(a.used[1]), WaitingRequests: a.waiting[0], WaitingTokens: Tokens(a.waiting[1]), Applied: a.rev,
		}, w.now, w.rev, false)
	case 8, 9: // hears its grant
		if i, ok := searchGrant(w.p.grants, name); ok && a.away == 0 {
			g := &w.p.grants[i]
			a.granted, a.rev = [2]int64{g.requests, g.tokens}, g.rev
		}
	case 10:
		w.p.pass(&w.par, w.now, w.rev, func(string) {})
	case 11:
		if i, ok := searchGrant(w.p.grants, name); ok && a.away == 0 {
			r, t := w.p.grants[i].debited()
			w.p.away(name, w.now)
			// It used all it was granted, and goes on at its safe rate.
			a.used = [2]int64{max(a.used[0], r), max(a.used[1], t)}
			a.away, a.safe = w.now, a.used
		}
	case 12:
		switch rapid.IntRange(0, 2).Draw(w.t, "ends") {
		case 0:
			if a.away == 0 {
				w.p.report(name, &PoolReport{UsedRequests: a.used[0], UsedTokens: Tokens(a.used[1]), Applied: a.rev}, w.now, w.rev, false)
				w.drop(name, false)
				w.p.leave(name, w.now)
				delete(w.agents, name)
			}
		case 1:
			w.p.advance(w.now)
			w.drop(name, true)
			w.p.drop(name)
			delete(w.agents, name)
		case 2:
			w.p.advance(w.now)
			w.drop(name, true)
			w.p.renew(name)
			delete(w.agents, name)
		}
	}
}

func (w *poolWorld) safe(name string) [2]int64 {
	i, ok := searchGrant(w.p.grants, name)
	if !ok {
		return [2]int64{}
	}
	return [2]int64{w.p.grants[i].safeRequests, w.p.grants[i].safeTokens}
}

// TestPoolIssuesNoMoreThanItsRate holds that whatever is lost, late, taken
// back or cut off, no more is handed out than the bucket held and time brought,
// and nothing of it disappears.
func TestPoolIssuesNoMoreThanItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &poolWorld{t: t, p: &pool{at: Hour}, now: Hour, par: DefaultParams(), agents: map[string]*poolAgent{}}
		rpm, tpm := rapid.Int64Range(1, 600).Draw(t, "rpm"), rapid.Int64Range(1, 100_000).Draw(t, "tpm")
		w.p.requests.Told, w.p.tokens.Told = rpm, tpm
		w.p.refresh(&w.par)
		start := w.issuedNow()
		before := start
		var deepest [2]int64
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			w.step()
			for d, got := range w.issuedNow() {
				if most := float64(start[d]) + w.refilled[d] + 1; float64(got) > most {
					t.Fatalf("dimension %d: %d issued, time brought %.1f\n%+v", d, got, most, w.p)
				}
			}
			after := w.issuedNow()
			if fullR, fullT := w.full(); after[0] < before[0] && !fullR || after[1] < before[1] && !fullT {
				t.Fatalf("of %v only %v are left\n%+v", before, after, w.p)
			}
			before = after
			level := [2]int64{w.p.requests.Level, w.p.tokens.Level}
			deepest[0], deepest[1] = max(deepest[0], w.p.requests.Burst), max(deepest[1], w.p.tokens.Burst)
			if level[0] > deepest[0] || level[1] > deepest[1] {
				t.Fatalf("%v saved up of %d and %d\n%+v", level, deepest[0], deepest[1], w.p)
			}
		}
	})
}

// TestFeedNobodyStarves holds that whoever waits for tokens is passed by no more
// of them than it needs, however little others need: so every agent starts a
// request in the time that two of the largest of every agent take.
func TestFeedNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		par := DefaultParams()
		p := &pool{at: origin}
		p.tokens.Told = 60_000 // a thousand a second
		n := rapid.IntRange(1, 6).Draw(t, "agents")
		var most int64
		needs := make([]int64, n)
		served := make([]Nanos, n)
		for i := range n {
			needs[i] = rapid.Int64Range(1, 2000).Draw(t, "tokens")
			most = max(most, needs[i])
			served[i] = origin
		}
		longest := Nanos(2*int64(n+1)*most/1000+1) * Second
		for now := origin; now < origin+2*longest; now += 100 * Millisecond {
			for i := range n {
				agent := fmt.Sprint(i)
				g := p.grant(agent)
				used := g.usedTokens
				if g.tokens-used >= needs[i] {
					used += needs[i]
					served[i] = now
				}
				p.report(agent, &PoolReport{
					UsedRequests: g.usedRequests, UsedTokens: Tokens(used), WaitingRequests: 5, WaitingTokens: Tokens(5 * needs[i]), Next: Tokens(needs[i]),
				}, now, 1, false)
				if now-served[i] > longest {
					t.Fatalf("agent %d of %v waits %s, at most %s", i, needs, now-served[i], longest)
				}
			}
			p.pass(&par, now, 1, func(string) {})
		}
	})
}
