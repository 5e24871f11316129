package events_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/events"
	"weir/model"
)

// rewrite makes TestFrozen write the bytes it compares with. Bytes of a
// released version never change: the flag is for kinds that are new.
var rewrite = flag.Bool("rewrite-frozen", false, "write the frozen bytes instead of comparing with them")

// TestFrozen holds the bytes of version 1: they decode to the values they were
// made from, and those values still give the same bytes.
func TestFrozen(t *testing.T) {
	all := allSamples()
	delete(all, "params") // see TestFrozenParams
	delete(all, "guarded")
	files, err := filepath.Glob("testdata/frozen/v1/*.bin")
	if err != nil || len(files) != len(all)+2 && !*rewrite {
		t.Fatalf("%d frozen files, %d samples, error %v", len(files), len(all), err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		file := filepath.Join("testdata/frozen/v1", name+".bin")
		if *rewrite {
			if err := os.WriteFile(file, encodeAny(name, all[name]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeAny(name, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(all[name], got); diff != "" {
			t.Errorf("%s: frozen bytes mean something else now (-want +got):\n%s", name, diff)
		}
		if again := encodeAny(name, all[name]); !bytes.Equal(again, data) {
			t.Errorf("%s: encoding changed:\n was %x\n now %x", name, data, again)
		}
	}
}

// TestFrozenParams holds the bytes of a parameter set. Parameters come, go and
// get other ranges and defaults, so the values that were frozen stand beside
// the bytes, each by its name and a third up its range of then.
func TestFrozenParams(t *testing.T) {
	const file, list = "testdata/frozen/v1/params.bin", "testdata/frozen/v1/params.txt"
	if *rewrite {
		freezeParams(t, file, list)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := events.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	got := f.(*model.ParamSet)
	if got.Name != "spring" || got.By != "ops" || got.Why != "calmer cuts" {
		t.Errorf("%q by %q: %q", got.Name, got.By, got.Why)
	}
	frozen, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(frozen)) {
		var name string
		var value int64
		if _, err := fmt.Sscan(line, &name, &value); err != nil {
			t.Fatal(err)
		}
		for _, s := range model.ParamSpecs() {
			if want := min(max(value, s.Min), s.Max); s.Name == name && s.Get(&got.Params) != want {
				t.Errorf("%s is %d, want %d", name, s.Get(&got.Params), want)
			}
		}
	}
}

// TestFrozenGuard holds the bytes of what was added to a parameter set.
func TestFrozenGuard(t *testing.T) {
	const file = "testdata/frozen/v1/guarded.bin"
	want := allSamples()["guarded"].(*model.ParamSet)
	if *rewrite {
		if err := os.WriteFile(file, events.Encode(nil, want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := events.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.(*model.ParamSet); got.Name != want.Name || got.Canary != want.Canary || got.Guard != want.Guard {
		t.Errorf("%q on %q under %+v, want %q on %q under %+v", got.Name, got.Canary, got.Guard, want.Name, want.Canary, want.Guard)
	}
}

func freezeParams(t *testing.T, file, list string) {
	p := &model.ParamSet{Name: "spring", By: "ops", Why: "calmer cuts"}
	var text strings.Builder
	for _, s := range model.ParamSpecs() {
		value := s.Min + (s.Max-s.Min)/3
		if err := s.Set(&p.Params, value); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, s.Name, value)
	}
	for name, data := range map[string][]byte{file: events.Encode(nil, p), list: []byte(text.String())} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
