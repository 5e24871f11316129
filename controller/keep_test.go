package controller_test

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/events"
	"weir/model"
)

func TestLogIsTrimmedBehindSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opts.Keep = 100
		r.start()
		defer func() { r.end() }()
		x := r.agent("x")
		for n := range 1000 {
			x.send(ok(), refusal())
			time.Sleep(10 * time.Millisecond)
			if n == 500 {
				r.restart()
			}
		}
		time.Sleep(time.Second)
		info, err := r.bus.Log().Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if held := info.Last - info.First + 1; held < 100 || held > 250 {
			t.Errorf("the log holds %d records, want 100 to 200 and a few", held)
		}
		if s := r.status(); len(s.Faults) != 0 || s.Owed != "" || !s.Leads {
			t.Errorf("status %+v, want no fault", s)
		}
		r.wantTail()
		r.restart()
		if s := r.status(); len(s.Faults) != 0 || s.Owed != "" {
			t.Errorf("after a restart %+v, want no fault", s)
		}
		if got := r.view().Counters; got.Attempts != 2000 || got.Lost != 0 {
			t.Errorf("counters %+v, want 2,000 attempts", got)
		}
		r.wantTail()
	})
}

// wantTail checks that the state is what each snapshot and the log's tail
// behind it give.
func (r *rig) wantTail() {
	r.t.Helper()
	_, digest, seq, err := r.loop.Snapshot(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if len(r.store.snapshots) != 2 {
		r.t.Fatalf("%d snapshots, want 2", len(r.store.snapshots))
	}
	for _, s := range r.store.snapshots {
		f, err := model.DecodeFleet(s.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		d := events.NewDecoder()
		var fx model.Effects
		for e := range entries(r.t, r.log) {
			if e.Seq <= s.Seq || e.Seq > seq {
				continue
			}
			if e.Seq != f.Seq()+1 {
				r.t.Fatalf("the log has no entry %d behind the snapshot at %d", f.Seq()+1, s.Seq)
			}
			rec, err := d.Record(e)
			if err != nil {
				r.t.Fatal(err)
			}
			f.Apply(rec, &fx)
		}
		if f.Digest() != digest {
			r.t.Errorf("the snapshot at %d and its tail are not the state at %d", s.Seq, seq)
		}
	}
}
