package agent_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestAbortsPropagate holds that a provider hears at once of a caller that
// left: the clock stands still from the moment at which the caller leaves until
// nothing moves any more, and by then the provider has seen it and the slot is
// free. So no timer of whatever length is on that way.
func TestAbortsPropagate(t *testing.T) {
	rules := shipped(t)
	hang := func(_ int64, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, tt := range []struct {
		name   string
		stream bool
		header []string
		answer func(n int64, w http.ResponseWriter, r *http.Request)
		heard  int64 // lines of the answer at least
	}{
		{"plain", false, nil, hang, 0},
		{"plain, head sent", false, nil, func(n int64, w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			hang(n, w, r)
		}, 0},
		{"plain under a key", false, []string{"Idempotency-Key", "k"}, hang, 0},
		{"stream before its head", true, nil, hang, 0},
		{"stream before its first content", true, nil, func(n int64, w http.ResponseWriter, r *http.Request) {
			say(w, ": wait\n\n")
			hang(n, w, r)
		}, 0},
		{"stream half-way", true, nil, func(n int64, w http.ResponseWriter, r *http.Request) {
			say(w, contentEvent)
			hang(n, w, r)
		}, 2},
		{"stream half-way under a key", true, []string{"Idempotency-Key", "k"}, func(n int64, w http.ResponseWriter, r *http.Request) {
			say(w, contentEvent)
			hang(n, w, r)
		}, 2},
		{"stream that goes on", true, nil, func(_ int64, w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				say(w, contentEvent)
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSidecar(t, rules, 8, tt.answer)
				ctx, leave := context.WithCancel(t.Context())
				h := s.call(ctx, tt.stream, tt.header...)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if flight, _ := s.queue(); s.calls.Load() != 1 || flight != 1 || s.gone.Load() != 0 || h.lines.Load() < tt.heard {
					t.Fatalf("before: %d calls, %d in flight, %d gone, %d lines", s.calls.Load(), flight, s.gone.Load(), h.lines.Load())
				}
				leave()
				synctest.Wait()
				if flight, _ := s.queue(); s.gone.Load() != 1 || flight != 0 {
					t.Errorf("after: %d callers gone for the provider, %d in flight", s.gone.Load(), flight)
				}
			})
		})
	}
}

// TestAbortsWhileWaiting holds the same for callers whose call waits: in the
// queue, and for the next try. None is sent.
func TestAbortsWhileWaiting(t *testing.T) {
	rules := shipped(t)
	t.Run("queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSidecar(t, rules, 1, func(_ int64, _ http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(30 * time.Second):
				case <-r.Context().Done():
				}
			})
			s.call(t.Context(), false)
			synctest.Wait()
			ctx, leave := context.WithCancel(t.Context())
			s.call(ctx, false)
			s.call(ctx, true)
			s.call(ctx, false, "Idempotency-Key", "k")
			synctest.Wait()
			if flight, waiting := s.queue(); flight != 1 || waiting != 3 {
				t.Fatalf("%d in flight, %d wait", flight, waiting)
			}
			leave()
			synctest.Wait()
			if flight, waiting := s.queue(); flight != 1 || waiting != 0 {
				t.Errorf("after: %d in flight, %d wait", flight, waiting)
			}
			time.Sleep(5 * time.Minute)
			if n := s.calls.Load(); n != 1 {
				t.Errorf("%d calls, want that of the caller who stayed", n)
			}
		})
	})

	t.Run("next try", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSidecar(t, rules, 8, func(n int64, w http.ResponseWriter, _ *http.Request) {
				if n > 4 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				_, _ = io.WriteString(w, wholeAnswer)
			})
			for range 4 { // earn retries
				s.call(t.Context(), false)
				synctest.Wait()
			}
			ctx, leave := context.WithCancel(t.Context())
			s.call(ctx, false)
			synctest.Wait()
			if _, waiting := s.queue(); waiting != 1 || s.calls.Load() != 5 {
				t.Fatalf("%d wait after %d calls", waiting, s.calls.Load())
			}
			leave()
			synctest.Wait()
			if _, waiting := s.queue(); waiting != 0 {
				t.Errorf("after: %d wait", waiting)
			}
			time.Sleep(5 * time.Minute)
			if n := s.calls.Load(); n != 5 {
				t.Errorf("%d calls, want no further try", n)
			}
		})
	})
}
