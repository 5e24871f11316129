package calibrate

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/world"
)

// TestWorld makes a world of what an uncontrolled client saw and lives it
// through: the figures must be those recorded.
func TestWorld(t *testing.T) {
	log := record(truth(t, "    concurrency: 40\n    slowdown: {from: 0.6, factor: 2}\n    refusal: {status: 200, code: \"2064\", shape: minimax, delay: 40ms}\n    changes: [{at: 3m, set: {concurrency: 25}}]\n"+service), 1, 6*time.Minute, waves(20))
	w, err := Build(log, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(log, Options{}); err != nil {
		t.Fatal(err)
	}
	if c := w.Report.Check; !c.Safe || c.Policy != world.PolicyNone {
		t.Errorf("check %+v", c)
	}
	var again bytes.Buffer
	if err := incident.Write(&again, w.Incident); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"# concurrency from 0s to 3m", "kind: trace, file: \"recorded.main-x.csv\"", "code: \"2064\"", "changes:"} {
		if !strings.Contains(w.Text, text) {
			t.Errorf("the file has no %q:\n%s", text, w.Text)
		}
	}
	t.Logf("%s\n%+v", w.Text, w.Report.Check)
}

// TestUnsafe gives the check a world that is not the log's.
func TestUnsafe(t *testing.T) {
	log := record(truth(t, "    concurrency: 40\n"+service), 1, 3*time.Minute, steady(25))
	w, err := Build(log, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Incident.Providers[0].Law.Concurrency = 15
	if err := w.Check(log, Options{}); err != nil {
		t.Fatal(err)
	}
	if c := w.Report.Check; c.Safe || c.Why == "" {
		t.Errorf("check %+v, want unsafe", c)
	}
}

// TestHostileLogs are logs that no world can be seen in.
func TestHostileLogs(t *testing.T) {
	if _, err := Build(&Log{}, Options{}); err == nil {
		t.Error("a log without calls makes a world")
	}
	for name, calls := range map[string][]Call{
		"one":      {{Sent: epoch, Took: model.Second, Class: model.ClassOK}},
		"refused":  {{Sent: epoch, Class: model.ClassOverloaded, Status: 503}, {Sent: epoch, Class: model.ClassRateLimited, Status: 429}},
		"instant":  {{Sent: epoch, Class: model.ClassOK}, {Sent: epoch, Class: model.ClassOK}, {Sent: epoch, Class: model.ClassOK}},
		"names":    {{Sent: epoch, Took: 1, Class: model.ClassOK, Channel: "a\n  b: {", Tenant: "#'\"\x00\u2028", Route: strings.Repeat("ü", 300)}, {Sent: epoch, Took: 1, Class: model.ClassOverloaded, Channel: "a_n  b: {", Code: "x\"\n\x1b", Status: 99999}},
		"negative": {{Sent: -1, Class: model.ClassOK}, {Sent: epoch, Took: -5, Class: model.ClassOK}, {Sent: epoch, Took: 5, Class: model.ClassOK, Input: 1 << 60}, {Sent: epoch, Took: 5, Class: 77}, {Sent: epoch, Took: 7, Class: model.ClassOK}},
	} {
		t.Run(name, func(t *testing.T) {
			log := &Log{}
			for i := range calls {
				log.Add(&calls[i])
			}
			w, err := Build(log, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Check(log, Options{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	far := &Log{}
	far.Add(&Call{Sent: 0, Took: 1, Class: model.ClassOK})
	far.Add(&Call{Sent: maxTime, Took: 1, Class: model.ClassOK})
	if _, err := Build(far, Options{}); err == nil {
		t.Error("a log of three centuries makes a world")
	}
	many := &Log{}
	for i := range 3000 {
		many.Add(&Call{Sent: epoch + model.Nanos(i), Took: 5, Class: model.ClassOK, Channel: strings.Repeat("c", i%300), Tenant: strings.Repeat("t", i), Code: strings.Repeat("x", i)})
	}
	if w, err := Build(many, Options{}); err != nil || len(w.Report.Providers) > maxNames || len(w.Incident.Workloads) > 2*maxNames {
		t.Errorf("many names: %v", err)
	}
}
