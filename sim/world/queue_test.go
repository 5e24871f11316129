package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestQueueOrder takes events from a queue and from a sorted list that is
// given the same ones, at instants of every distance and many at the same.
func TestQueueOrder(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var q queue
		var want []event
		var now int64
		for made := uint64(0); made < 3000 || !q.empty(); {
			if made < 3000 && (q.empty() || rnd.IntN(2) == 0) {
				made++
				e := event{at: now + rnd.Int64N(1<<rnd.IntN(42)), kind: onSecond, a: made}
				q.push(e.at, e.kind, e.a, e.b)
				i, _ := slices.BinarySearchFunc(want, e.at, func(w event, at int64) int {
					if w.at <= at {
						return -1
					}
					return 1
				})
				want = slices.Insert(want, i, e)
				continue
			}
			got := q.pop()
			if got != want[0] {
				t.Fatalf("seed %d: got %+v, want %+v", seed, got, want[0])
			}
			now, want = got.at, want[1:]
		}
		if len(want) > 0 {
			t.Errorf("seed %d: %d events were lost", seed, len(want))
		}
	}
}

// BenchmarkQueue takes an event and makes another, as an agent's life does:
// most of what is pending are deadlines far away.
func BenchmarkQueue(b *testing.B) {
	for _, pending := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(pending), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 2))
			var q queue
			for range pending {
				q.push(rnd.Int64N(int64(10*time.Minute)), onExpiry, 1, 2)
			}
			b.ReportAllocs()
			for b.Loop() {
				e := q.pop()
				q.push(e.at+rnd.Int64N(int64(10*time.Minute)), onExpiry, 1, 2)
			}
		})
	}
}
