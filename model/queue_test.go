package model

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueueProperties compares the lanes with a sorted slice.
func TestQueueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newGateQueue()
		route := &gateRoute{}
		var all []*gateRequest
		number := uint64(0)
		order := func() { slices.SortFunc(all, func(a, b *gateRequest) int { return queueOrder(a, b) }) }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				number++
				r := &gateRequest{
					route: route, number: number, rank: uint8(rapid.IntRange(0, 2).Draw(t, "rank")),
					priority: Priority(rapid.IntRange(0, 2).Draw(t, "priority")), tokens: Tokens(rapid.IntRange(0, 9).Draw(t, "tokens")),
					deadline: Nanos(rapid.IntRange(0, 5).Draw(t, "deadline")), level: uint8(rapid.IntRange(0, 1).Draw(t, "level")),
				}
				q.push(r)
				all = append(all, r)
			},
			"remove": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("empty")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				q.remove(all[i])
				all = slices.Delete(all, i, i+1)
			},
			"": func(t *rapid.T) {
				order()
				if q.n != len(all) {
					t.Fatalf("%d held, want %d", q.n, len(all))
				}
				var waiting [NumPriorities]int
				for i, r := range all {
					if p := q.position(r); p != i+1 {
						t.Fatalf("position %d, want %d", p, i+1)
					}
					waiting[r.priority]++
				}
				if waiting != route.waiting {
					t.Fatalf("waiting %v, want %v", route.waiting, waiting)
				}
				if len(all) > 0 && q.last() != all[len(all)-1] {
					t.Fatalf("another one is last")
				}
				for _, l := range q.list {
					checkLane(t, l, all)
				}
			},
		})
	})
}

func checkLane(t *rapid.T, l *queueLane, all []*gateRequest) {
	var want []*gateRequest
	var tokens Tokens
	urgent := 0
	for _, r := range all {
		if r.level == l.key.level && r.priority == l.key.priority {
			want = append(want, r)
			tokens += r.tokens
			if r.priority == PriorityInteractive {
				urgent++
			}
		}
	}
	if l.first() != want[0] || l.last() != want[len(want)-1] || l.len() != len(want) {
		t.Fatalf("lane %d has other ends than its requests", l.key.level)
	}
	if l.tokens != tokens || l.urgent != urgent {
		t.Fatalf("lane sums %d tokens %d urgent, want %d and %d", l.tokens, l.urgent, tokens, urgent)
	}
	for most := Tokens(-1); most < 10; most++ {
		var first *gateRequest
		if i := slices.IndexFunc(want, func(r *gateRequest) bool { return r.tokens <= most }); i >= 0 {
			first = want[i]
		}
		if got := l.upTo(most); got != first {
			t.Fatalf("another one is the first of at most %d tokens", most)
		}
	}
	due := l.due(2, nil)
	want = slices.DeleteFunc(want, func(r *gateRequest) bool { return r.deadline > 2 })
	if !slices.Equal(due, want) {
		t.Fatalf("%d are due, want %d", len(due), len(want))
	}
}

// queueOrder is the order of service, said another way.
func queueOrder(a, b *gateRequest) int {
	return cmp.Or(-cmp.Compare(a.rank, b.rank), cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.number, b.number))
}

// TestQueueDepth checks that a lane stays shallow whatever the order of arrival.
func TestQueueDepth(t *testing.T) {
	q := newGateQueue()
	route := &gateRoute{}
	for i := range 10_000 {
		q.push(&gateRequest{route: route, number: uint64(i), deadline: Nanos(i)})
	}
	var depth func(*gateRequest) int
	depth = func(r *gateRequest) int {
		if r == nil {
			return 0
		}
		return 1 + max(depth(r.node.left), depth(r.node.right))
	}
	if d := depth(q.list[0].root); d > 45 {
		t.Errorf("ten thousand in order are %d deep", d)
	}
}

// TestTimers compares the timers with a sorted slice.
func TestTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h gateTimers
		var all []*gateRequest
		for i := range 20 {
			all = append(all, &gateRequest{number: uint64(i)})
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				h.set(rapid.SampledFrom(all).Draw(t, "which"), Nanos(rapid.IntRange(0, 30).Draw(t, "at")))
			},
			"drop": func(t *rapid.T) { h.drop(rapid.SampledFrom(all).Draw(t, "which")) },
			"": func(t *rapid.T) {
				want, n := gateNever, 0
				for _, r := range all {
					if r.timer > 0 {
						want = min(want, h[r.timer-1].wake)
						n++
						if h[r.timer-1].r != r {
							t.Fatalf("a request is not where it thinks")
						}
					}
				}
				if h.next() != want || len(h) != n {
					t.Fatalf("next %d of %d, want %d of %d", h.next(), len(h), want, n)
				}
			},
		})
	})
}

// TestHolds releases held slots in order of time.
func TestHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h gateHolds
		at := rapid.SliceOf(rapid.IntRange(0, 100)).Draw(t, "at")
		for _, n := range at {
			h.add(Nanos(n))
		}
		now := Nanos(rapid.IntRange(0, 100).Draw(t, "now"))
		h.release(now)
		want := slices.DeleteFunc(slices.Clone(at), func(n int) bool { return Nanos(n) <= now })
		got := slices.Clone(h)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.EqualFunc(got, want, func(a Nanos, b int) bool { return a == Nanos(b) }) {
			t.Fatalf("held %v after %d, want %v", got, now, want)
		}
		if len(want) > 0 && h.next() != Nanos(want[0]) || len(want) == 0 && h.next() != gateNever {
			t.Fatalf("next %d of %v", h.next(), want)
		}
	})
}
