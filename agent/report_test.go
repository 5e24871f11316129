package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/events/memlog"
	"weir/model"
)

// TestBusAway wants calls to go on as if nothing had happened, and every
// report in the log once when the bus is back.
func TestBusAway(t *testing.T) {
	for name, faults := range map[string]memlog.Faults{
		"cut":  {Cut: []string{"agent-1"}},
		"full": {Full: true},
		"acks": {LoseAck: func(string) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 4 })
				const calls = 500
				for i := range calls {
					switch i {
					case 50:
						b.bus.SetFaults(faults)
					case 450:
						b.bus.SetFaults(memlog.Faults{})
					}
					began := time.Now()
					p := b.must(1)[0]
					if waited := time.Since(began); waited > 0 {
						t.Fatalf("call %d waited %v for the bus", i, waited)
					}
					time.Sleep(100 * time.Millisecond)
					p.Done(ok())
				}
				b.close()
				attempts, next := 0, uint64(1)
				for _, f := range b.facts() {
					r, isAttempts := f.(*model.Attempts)
					if !isAttempts || r.Seq != next || r.Base != uint64(attempts) {
						t.Fatalf("got %+v after report %d with %d attempts", f, next-1, attempts)
					}
					next++
					attempts += len(r.Attempts)
				}
				if attempts != calls {
					t.Errorf("%d attempts are in the log, want %d", attempts, calls)
				}
				if name != "acks" && !strings.Contains(b.log.String(), "will repeat") || strings.Count(b.log.String(), "\n") > 4 {
					t.Errorf("the log says:\n%s", b.log.String())
				}
			})
		})
	}
}

// TestLongOutage fills the spool: what cannot be kept is summed up and counted.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 4; c.Spool = 4096 })
		b.bus.SetFaults(memlog.Faults{Cut: []string{"agent-1"}})
		const calls = 5000
		for range calls {
			p := b.must(1)[0]
			time.Sleep(100 * time.Millisecond)
			p.Done(ok())
		}
		b.bus.SetFaults(memlog.Faults{})
		b.close()
		var attempts, summed, next uint64 = 0, 0, 1
		for _, f := range b.facts() {
			switch f := f.(type) {
			case *model.Attempts:
				if f.Seq != next {
					t.Fatalf("report %d, want %d", f.Seq, next)
				}
				next++
				attempts += uint64(len(f.Attempts))
			case *model.Summary:
				if f.Seq != next {
					t.Fatalf("summary of %d, want %d", f.Seq, next)
				}
				next += f.Span
				for _, c := range f.Counts {
					summed += c.Attempts
				}
			}
		}
		if attempts+summed != calls || summed == 0 {
			t.Errorf("%d attempts and %d summed up, want %d together", attempts, summed, calls)
		}
	})
}

// TestSlowBus wants reports to become fewer and fuller when the log is slow,
// not to pile up.
func TestSlowBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 100 })
		defer b.close()
		b.bus.SetFaults(memlog.Faults{Delay: 400 * time.Millisecond})
		for range 2000 {
			b.must(1)[0].Done(ok())
			time.Sleep(10 * time.Millisecond)
		}
		if waiting, _ := b.client.spool.count(); waiting > 2*crowded {
			t.Errorf("%d reports wait behind a slow log", waiting)
		}
	})
}
