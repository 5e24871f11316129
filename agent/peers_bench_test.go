//go:build peers

package agent

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// BenchmarkPeers puts one admitted call, begun and ended well, through what
// people build for the same job in one process: a window, a budget of requests
// and one of tokens a minute, a breaker, and counting of outcomes. None of them
// knows of another process; none refuses here. The floor is four pairs of atomic
// additions and one look at the clock. Run it with task bench-peers: the
// libraries are in peers.mod and never in go.mod.
func BenchmarkPeers(b *testing.B) {
	b.Run("floor", benchFloor)
	b.Run("floor-shared", benchFloorShared)
	b.Run("weir", BenchmarkAcquire)
	b.Run("weir-shared", BenchmarkAcquireShared)
	b.Run("weir-refused", BenchmarkRefusal)
	b.Run("x-time+semaphore+gobreaker", benchParts)
	b.Run("failsafe", benchFailsafe)
}

func benchFloor(b *testing.B) {
	var shared [4]atomic.Int64
	var last time.Time
	b.ReportAllocs()
	for b.Loop() {
		last = time.Now()
		for i := range shared {
			shared[i].Add(1)
		}
		for i := range shared {
			shared[i].Add(-1)
		}
	}
	_ = last
}

func benchFloorShared(b *testing.B) {
	var shared [4]atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		var last time.Time
		for pb.Next() {
			last = time.Now()
			for i := range shared {
				shared[i].Add(1)
			}
			for i := range shared {
				shared[i].Add(-1)
			}
		}
		_ = last
	})
}

// plenty is a limit that is never met.
const plenty = 1 << 30

var errFull = errors.New("it refuses a call that it should admit")

func benchParts(b *testing.B) {
	requests, tokens := rate.NewLimiter(plenty, plenty), rate.NewLimiter(plenty, plenty)
	slots := semaphore.NewWeighted(1000)
	breaker := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{})
	b.ReportAllocs()
	for b.Loop() {
		done, err := breaker.Allow()
		if err != nil {
			b.Fatal(err)
		}
		if now := time.Now(); !slots.TryAcquire(1) || !requests.AllowN(now, 1) || !tokens.AllowN(now, 100) {
			b.Fatal(errFull)
		}
		slots.Release(1)
		done(nil)
	}
}

func benchFailsafe(b *testing.B) {
	tokens := ratelimiter.NewBursty[any](plenty, time.Second)
	policies := failsafe.With(
		failsafe.Policy[any](circuitbreaker.NewWithDefaults[any]()),
		ratelimiter.NewBursty[any](plenty, time.Second),
		adaptivelimiter.NewBuilder[any]().WithLimits(1000, 1000, 1000).Build(),
	)
	b.ReportAllocs()
	for b.Loop() {
		err := policies.Run(func() error {
			if !tokens.TryAcquirePermits(100) {
				return errFull
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
