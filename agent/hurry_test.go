package agent_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// takes answers after that time, as a stream of one event a second or whole.
func takes(long time.Duration) func(n int64, w http.ResponseWriter, r *http.Request) {
	return func(_ int64, w http.ResponseWriter, r *http.Request) {
		stream := strings.Contains(r.Header.Get("Accept-Encoding"), "identity")
		for began := time.Now(); time.Since(began) < long && r.Context().Err() == nil; time.Sleep(time.Second) {
			if stream {
				say(w, contentEvent)
			}
		}
		if stream {
			say(w, "data: [DONE]\n\n")
			return
		}
		_, _ = io.WriteString(w, wholeAnswer)
	}
}

// TestHurry holds that the wait an SDK states bounds what the gate plans with:
// nothing is sent, or waits, for a client that will have gone by then.
func TestHurry(t *testing.T) {
	rules := shipped(t)
	const said = "X-Stainless-Timeout"
	for _, tt := range []struct {
		name   string
		stream bool
		header []string
		// What becomes of a second client's call of 10 s beside one that has
		// the only slot and began at the same time, and how many are sent.
		status int64
		sent   int64
	}{
		{"nothing said", false, nil, 200, 2},
		{"long enough", false, []string{said, "60"}, 200, 2},
		{"over before there is a slot", false, []string{said, "4"}, 503, 1},
		{"over before it would end", false, []string{said, "15"}, 503, 1},
		{"as the Python SDK says it", false, []string{"X-Stainless-Read-Timeout", "15.0"}, 503, 1},
		{"stated otherwise too", false, []string{said, "15", "X-Weir-Deadline-Ms", "60000"}, 503, 1},
		{"a stream, of which only the head is awaited", true, []string{said, "15"}, 200, 2},
		{"for others too", false, []string{said, "15", "Idempotency-Key", "k"}, 200, 2},
		{"absurd", false, []string{said, "-5"}, 200, 2},
		{"cut off", false, []string{said, "0"}, 200, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSidecar(t, rules, 1, takes(10*time.Second))
				for range 3 { // so it is known how long they take
					s.call(t.Context(), tt.stream)
					time.Sleep(11 * time.Second)
				}
				before := s.calls.Load()
				s.call(t.Context(), tt.stream)
				synctest.Wait()
				h := s.call(t.Context(), tt.stream, tt.header...)
				time.Sleep(time.Minute)
				if sent := s.calls.Load() - before; h.status.Load() != tt.status || sent != tt.sent {
					t.Errorf("status %d, %d sent; want %d, %d: %v", h.status.Load(), sent, tt.status, tt.sent, h.last.Load())
				}
				if tt.status == 503 && !strings.Contains(h.last.Load().(string), "a call takes longer than the deadline leaves") {
					t.Errorf("refused by %v", h.last.Load())
				}
			})
		})
	}
}

// TestTooLateIsToldAtOnce holds that who waits is refused as soon as there is
// less time left than a call takes, and not only when a slot becomes free.
func TestTooLateIsToldAtOnce(t *testing.T) {
	rules := shipped(t)
	synctest.Test(t, func(t *testing.T) {
		usual, long := takes(10*time.Second), takes(10*time.Minute)
		s := newSidecar(t, rules, 1, func(n int64, w http.ResponseWriter, r *http.Request) {
			if n == 4 {
				long(n, w, r)
				return
			}
			usual(n, w, r)
		})
		for range 3 {
			s.call(t.Context(), false)
			time.Sleep(11 * time.Second)
		}
		first := s.call(t.Context(), false)
		synctest.Wait()
		stated := s.call(t.Context(), false, "X-Weir-Deadline-Ms", "15000")
		said := s.call(t.Context(), false, "X-Stainless-Timeout", "15")
		patient := s.call(t.Context(), false)
		time.Sleep(4 * time.Second)
		if a, b := stated.status.Load(), said.status.Load(); a != 0 || b != 0 {
			t.Errorf("with time for a call left they ended with %d, %d", a, b)
		}
		time.Sleep(2 * time.Second)
		for _, h := range []*heard{stated, said} {
			if text, _ := h.last.Load().(string); h.status.Load() != 503 || !strings.Contains(text, "a call takes longer than the deadline leaves") {
				t.Errorf("status %d: %s", h.status.Load(), text)
			}
		}
		if first.status.Load() != 0 || patient.status.Load() != 0 {
			t.Error("the slot became free")
		}
		time.Sleep(20 * time.Minute)
		if first.status.Load() != 200 || patient.status.Load() != 200 {
			t.Errorf("the others ended with %d, %d", first.status.Load(), patient.status.Load())
		}
	})
}

// TestHurryEndsNothing holds that a call goes on while its client is there,
// though the client said that it would leave: what an SDK says is a plan.
func TestHurryEndsNothing(t *testing.T) {
	rules := shipped(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, rules, 1, takes(10*time.Second))
		h := s.call(t.Context(), false, "X-Stainless-Timeout", "5")
		synctest.Wait() // so that it has the slot
		stated := s.call(t.Context(), false, "X-Stainless-Timeout", "5", "X-Weir-Deadline-Ms", "7000")
		time.Sleep(time.Minute)
		if got := h.status.Load(); got != 200 {
			t.Errorf("status %d: %v", got, h.last.Load())
		}
		if got := stated.status.Load(); got != 503 {
			t.Errorf("with a deadline stated: status %d", got)
		}
	})
}

// TestLongCalls holds that no time limit on connections ends a call that takes
// minutes: whole, with a silence in its stream, or before it has a slot.
func TestLongCalls(t *testing.T) {
	rules := shipped(t)
	const long = 5 * time.Minute
	for name, answer := range map[string]func(n int64, w http.ResponseWriter, r *http.Request){
		"whole": takes(long),
		"stream": func(_ int64, w http.ResponseWriter, _ *http.Request) {
			say(w, contentEvent)
			time.Sleep(long)
			say(w, contentEvent+"data: [DONE]\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSidecar(t, rules, 1, answer)
				first := s.call(t.Context(), name == "stream")
				second := s.call(t.Context(), name == "stream")
				time.Sleep(2*long + time.Minute)
				for _, h := range []*heard{first, second} {
					if got := h.last.Load(); h.status.Load() != 200 || name == "stream" && h.lines.Load() != 6 {
						t.Errorf("status %d, %d lines, the last %v", h.status.Load(), h.lines.Load(), got)
					}
				}
				if n := s.calls.Load(); n != 2 || s.gone.Load() != 0 {
					t.Errorf("%d calls, %d broken off", n, s.gone.Load())
				}
			})
		})
	}
}
