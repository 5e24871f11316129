package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/cmd/weir/config"
	"weir/model"
	"weir/sim/tune"
)

// quickStudy is a study of a few hundred short runs.
func quickStudy(t *testing.T, more ...string) []string {
	t.Helper()
	bad := file(t, "bad.yaml", "params: {cut_share: 300000, slow_start_gain: 10, hold_default: 60s}\n")
	return append([]string{
		"sim", "tune", "--params", bad, "--incidents", "row-step-8,row-ambiguous-8", "--compress", "20s",
		"--trials", "12", "--seeds", "2", "--seed", "3",
	}, more...)
}

// TestTuneIsTheSame: one worker and three write the same study, and so does
// one that was killed twice on its way.
func TestTuneIsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("simulations, which take long under the race detector")
	}
	dir := t.TempDir()
	args := quickStudy(t)
	study := func(name string) string { return filepath.Join(dir, name+".jsonl") }
	text := func(name string) string {
		b, err := os.ReadFile(study(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	run := func(name string, more ...string) result {
		got := weir(t, "", append(append([]string{}, args...), append(more, "--study", study(name))...)...)
		if got.code != exitOK {
			t.Fatalf("%s: exit code %d: %s", name, got.code, got.stderr)
		}
		return got
	}
	one, three := run("one", "--workers", "1"), run("three", "--workers", "3")
	if text("one") != text("three") || one.stdout != three.stdout {
		t.Errorf("one worker and three differ:\n%s\n%s", one.stdout, three.stdout)
	}
	for lines := 10; lines <= 60; lines += 50 {
		p := start(t, dir, append(append([]string{}, args...), "--study", study("killed"), "--workers", "2")...)
		p.until("write runs", func() bool {
			b, err := os.ReadFile(study("killed"))
			return err == nil && strings.Count(string(b), "\n") > lines
		})
		p.kill()
	}
	if got := run("killed", "--workers", "2"); text("killed") != text("one") || got.stdout != one.stdout {
		t.Errorf("the study that was killed ends otherwise:\n%s\n%s", got.stdout, one.stdout)
	}
	before := text("one")
	if again := run("one"); again.stdout != one.stdout || text("one") != before {
		t.Error("a finished study says something else when it is asked again")
	}
}

// TestTuneParamsFile: what -o writes can be read as a file of parameters, and
// holds all of them.
func TestTuneParamsFile(t *testing.T) {
	if testing.Short() {
		t.Skip("simulations, which take long under the race detector")
	}
	out := filepath.Join(t.TempDir(), "p.yaml")
	got := weir(t, "", quickStudy(t, "-o", out, "--json")...)
	if got.code != exitOK {
		t.Fatal(got.stderr)
	}
	var said struct {
		Recommend bool
		Why       string
		Params    string
		Changed   map[string]int64
		Incidents []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &said); err != nil {
		t.Fatalf("%s: %v", got.stdout, err)
	}
	p, err := read(out, config.ParseParams)
	if err != nil {
		t.Fatal(err)
	}
	set, err := p.Apply(model.DefaultParams())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Values) != len(model.ParamSpecs()) || set.Hash() != said.Params || p.Why != said.Why || p.Name == "" {
		t.Errorf("%d values, hash %s, want %s; why %q, want %q", len(p.Values), set.Hash(), said.Params, p.Why, said.Why)
	}
	if len(said.Incidents) != 2 || said.Recommend != (len(said.Changed) > 0) {
		t.Errorf("got %s", got.stdout)
	}
}

// TestTuneKeepsDefaults: a small budget finds nothing that is surely better
// than the defaults, and says so.
func TestTuneKeepsDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("simulations, which take long under the race detector")
	}
	out := filepath.Join(t.TempDir(), "p.yaml")
	got := weir(t, "", "sim", "tune", "--incidents", "testdata/quick.yaml,row-hidden-rate-8", "--compress", "1m", "--trials", "8", "--seeds", "2", "-o", out)
	if got.code != exitOK || !strings.HasPrefix(got.stdout, "keep what you have") {
		t.Fatalf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	p, err := read(out, config.ParseParams)
	if err != nil {
		t.Fatal(err)
	}
	set, err := p.Apply(model.DefaultParams())
	if d := model.DefaultParams(); err != nil || set != d {
		t.Errorf("the file does not hold what is in force: %v", cmp.Diff(d, set))
	}
}

func TestTuneBadInput(t *testing.T) {
	study := file(t, "s.jsonl", "no study\n{}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--trials", "0"}, "--trials=0: want 1 to"},
		{[]string{"--seeds", "0"}, "--seeds=0: want 1 to"},
		{[]string{"--workers", "2000"}, "--workers=2000: want"},
		{[]string{"--tail", "2"}, "--tail=2: want 0 to 1"},
		{[]string{"--worth", "NaN"}, "--worth=NaN: want 0 or more"},
		{[]string{"--only", "beta"}, "--only=beta: there is no such parameter"},
		{[]string{"--weights", "speed=1"}, "--weights=speed=1: want goodput"},
		{[]string{"--incidents", t.TempDir()}, "has no .yaml file"},
		{[]string{"--incidents", "nowhere"}, "there is no such file"},
		{[]string{"--incidents", "row-step-8,row-step-8"}, "two are named row-step-8"},
		{[]string{"--params", "nowhere.yaml"}, "nowhere.yaml"},
		{[]string{"--study", study}, "line 1 of the study"},
	} {
		args := append([]string{"sim", "tune", "--incidents", "testdata/quick.yaml"}, c.args...)
		if c.args[0] == "--incidents" {
			args = append([]string{"sim", "tune"}, c.args...)
		}
		weir(t, "", args...).wantFaults(t, c.want)
	}
}

// TestTuneOtherStudy: a file is not gone on with under another command line.
func TestTuneOtherStudy(t *testing.T) {
	study := filepath.Join(t.TempDir(), "s.jsonl")
	args := []string{"sim", "tune", "--incidents", "testdata/quick.yaml", "--compress", "5s", "--trials", "2", "--seeds", "1", "--study", study}
	if got := weir(t, "", args...); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	weir(t, "", append(args, "--seed", "2")...).wantFaults(t, "is another one")
}

func TestTuneStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := weirIn(ctx, "", quickStudy(t, "--study", filepath.Join(t.TempDir(), "s.jsonl"))...)
	if got.code != exitFailed || !strings.Contains(got.stderr, "the same command goes on with") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

// TestStudyFileIsOwn: a process that finds its study grown by another stops.
func TestStudyFileIsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	a, err := openStudy(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := openStudy(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("1\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte("2\n")); err == nil {
		t.Error("two processes wrote the same study")
	}
	if err := errors.Join(a.close(), b.close()); err != nil {
		t.Error(err)
	}
}

func TestTuneProgress(t *testing.T) {
	var out strings.Builder
	at := time.Unix(0, 0)
	p := newTuneProgress(&out, func() time.Time { return at })
	for n := range 25 {
		p.ran()
		at = at.Add(time.Second)
		p.set(tune.Progress{Phase: "search", Trials: n, Of: 50, Runs: 100 + n, RunsLeft: 75 - n, InForce: 0.5, Best: 0.25})
	}
	p.close()
	want := "search: trial 9 of 50, 109 runs, best score 0.2500 (in force 0.5000), about 1m6s left\n" +
		"search: trial 19 of 50, 119 runs, best score 0.2500 (in force 0.5000), about 56s left\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestInOrder: results come in the order of the jobs, and the first error ends
// it.
func TestInOrder(t *testing.T) {
	jobs := make([]int, 50)
	for i := range jobs {
		jobs[i] = i
	}
	bad := errors.New("bad")
	for _, workers := range []int{1, 4, 100} {
		var got []int
		err := inOrder(t.Context(), workers, jobs, func(j *int) (int, error) {
			if *j == 40 {
				return 0, bad
			}
			time.Sleep(time.Duration(*j%3) * time.Millisecond)
			return *j, nil
		}, func(r int) error { got = append(got, r); return nil })
		if d := cmp.Diff(jobs[:40], got); d != "" || !errors.Is(err, bad) {
			t.Errorf("%d workers: %v, -want +got:\n%s", workers, err, d)
		}
	}
}
