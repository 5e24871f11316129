package world

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/workload"
)

// builtin returns a built-in incident.
func builtin(t *testing.T, name string) *incident.Incident {
	t.Helper()
	inc, err := incident.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

// traces reads what an incident's arrivals name from the folder in
// WEIR_TRACES; a test without it is skipped.
func traces(t *testing.T, inc *incident.Incident) map[string]workload.Trace {
	t.Helper()
	out := map[string]workload.Trace{}
	for _, name := range inc.Traces() {
		dir := os.Getenv("WEIR_TRACES")
		if dir == "" {
			t.Skipf("%s needs %s: set WEIR_TRACES to the folder that has it", inc.Name, name)
		}
		f, err := os.Open(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			t.Skipf("%s is left out: %v", inc.Name, err)
		}
		out[name], err = workload.ReadTrace(name, f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// lived is a world after its end, for tests that look inside.
func lived(t *testing.T, inc *incident.Incident, policy string) (*world, *Result) {
	t.Helper()
	w, err := begin(Config{Incident: inc, Seed: 1, Policy: policy, Traces: traces(t, inc)})
	if err != nil {
		t.Fatal(err)
	}
	return w, w.play()
}

// TestEveryIncidentConserves lives each built-in incident and variant in half
// a minute without control and with Weir, and counts: each request wanted ended
// once or is still alive; each attempt sent was refused, served, failed or
// abandoned once or is still in flight; and the providers' books say the same.
// With Weir no record raises what is claimed above the limit.
func TestEveryIncidentConserves(t *testing.T) {
	for _, name := range incident.List() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inc := builtin(t, name)
			inc = inc.Compress(min(inc.Duration, 30*time.Second))
			for _, policy := range []string{PolicyNone, PolicyWeir} {
				w, r := lived(t, inc, policy)
				conserves(t, policy, w, r)
				if r.LeaseOvershoot > 1_000_000 {
					t.Errorf("%s: claims rose to %d ppm of the limit", policy, r.LeaseOvershoot)
				}
			}
		})
	}
}

func conserves(t *testing.T, policy string, w *world, r *Result) {
	t.Helper()
	all := w.book.second // what came after the last full second
	for _, s := range r.Seconds {
		all.Wanted += s.Wanted
		all.Completed += s.Completed
		all.Failed += s.Failed
		all.Sent += s.Sent
		for k, n := range s.Refused {
			all.Refused[k] += n
		}
	}
	var alive, inFlight, refused, offered, served int64
	for i := range w.requests.used {
		if w.requests.at(i).alive {
			alive++
		}
	}
	for i := range w.attempts.used {
		if w.attempts.at(i).alive {
			inFlight++
		}
	}
	for _, n := range all.Refused {
		refused += n
	}
	if all.Wanted == 0 || all.Sent == 0 {
		t.Fatalf("%s: %d requests, %d attempts: nothing happened", policy, all.Wanted, all.Sent)
	}
	if ends := all.Completed + all.Failed + alive; ends != all.Wanted {
		t.Errorf("%s: %d requests wanted, %d ended or alive", policy, all.Wanted, ends)
	}
	for i, b := range r.Books {
		offered += b.Offered
		served += b.Served
		if sum := b.Refused.Total() + b.Served + b.Failed + b.Abandoned + b.Running + b.Waiting; sum != b.Offered {
			t.Errorf("%s: provider %d: %d calls offered, %d in the books", policy, i, b.Offered, sum)
		}
	}
	if offered != all.Sent {
		t.Errorf("%s: %d attempts sent, %d offered to providers", policy, all.Sent, offered)
	}
	if ends := refused + served + w.book.abandoned + inFlight; ends != all.Sent {
		t.Errorf("%s: %d attempts sent, %d ended or in flight", policy, all.Sent, ends)
	}
	if all.Refused[model.ClassOK] != 0 {
		t.Errorf("%s: %d refusals of class ok", policy, all.Refused[model.ClassOK])
	}
}
