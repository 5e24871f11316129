package model

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestApply plays the scripts of testdata/apply. Each tells one behaviour in
// prose, records in, decisions, messages and state out. With -rewrite they are
// written anew: read the difference.
//
//	config [at=1s]   a configuration, one channel or group a line
//	params           parameters that differ from those at the begin; with
//	                 for=TIME, goodput=PPM, waste=PPM, canary=CHANNEL a guarded push
//	fold             records, see script; times=N folds them so often
//	state [HEAD]     the state, or the part that begins with HEAD
//	lease AGENT…     the messages that agents would get now
//	rebase [bad]     the present state as an anchor
func TestApply(t *testing.T) {
	datadriven.Walk(t, "testdata/apply", func(t *testing.T, path string) {
		s := newScript(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			out := s.run(d)
			checkFleet(t, s.f)
			return out
		})
	})
}

func (s *script) run(d *datadriven.TestData) string {
	s.out.Reset()
	for _, arg := range d.CmdArgs {
		if arg.Key == "at" {
			s.at(arg.Vals[0])
		}
	}
	switch d.Cmd {
	case "config":
		s.fold(parseConfig(s.t, d.Input))
	case "params":
		s.params(d)
	case "fold":
		times := 1
		d.MaybeScanArgs(s.t, "times", &times)
		var out strings.Builder
		for range times {
			out.WriteString(s.play(d.Input))
		}
		return out.String()
	case "state":
		var head []string
		for _, a := range d.CmdArgs {
			head = append(head, a.Key)
		}
		return section(s.f.Describe(), strings.Join(head, " "))
	case "lease":
		for _, a := range d.CmdArgs {
			if l := s.f.Lease(a.Key); l != nil {
				s.out.WriteString(describeLease(l) + "\n")
			} else {
				s.out.WriteString(a.Key + ": none\n")
			}
		}
	case "rebase":
		b := &Rebase{Term: s.f.Term(), Snapshot: s.f.AppendBinary(nil), Digest: s.f.Digest(), Reason: "the log came back shorter"}
		if d.HasArg("bad") {
			b.Digest[0]++
		}
		s.fold(b)
	default:
		s.t.Fatalf("unknown command %q", d.Cmd)
	}
	return s.out.String()
}

// params pushes parameters.
func (s *script) params(d *datadriven.TestData) {
	p := &ParamSet{Name: "test", By: "op", Params: setParams(s.t, parseParams(s.t, scriptParams), d.Input)}
	o := opts{}
	for _, arg := range d.CmdArgs {
		o[arg.Key] = strings.Join(arg.Vals, ",")
	}
	p.Name, p.Canary = o.text("name", p.Name), o.text("canary", "")
	if o.has("for") {
		p.Guard = Guard{For: o.time(s.t, "for", 0), Goodput: PPM(o.num("goodput", -20_000)), Waste: PPM(o.num("waste", 10_000))}
	}
	s.fold(p)
}

// checkFleet holds what must be true after every record: the sums are those
// of the leases, lists are sorted, and the encoding can be read again and
// gives the same state.
func checkFleet(t testing.TB, f *Fleet) {
	t.Helper()
	b := f.AppendBinary(nil)
	again, err := DecodeFleet(b)
	if err != nil {
		t.Fatalf("decode: %v\n%s", err, f.Describe())
	}
	if got := again.AppendBinary(nil); string(got) != string(b) {
		t.Fatalf("decoded state differs:\n%s\nwant\n%s", again.Describe(), f.Describe())
	}
	for _, c := range f.channels {
		sum := channel{}
		for i := range c.leases {
			sum.count(&c.leases[i], 1)
		}
		if sum.inflight != c.inflight || sum.held != c.held || sum.accepted != c.accepted || sum.queued != c.queued {
			t.Fatalf("channel %s: sums %d %d %d %d, leases have %d %d %d %d", c.name, c.inflight, c.held, c.accepted, c.queued, sum.inflight, sum.held, sum.accepted, sum.queued)
		}
	}
}
