package config_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/agent/proxy"
	"weir/cmd/weir/config"
	"weir/model"
)

func TestKeys(t *testing.T) {
	web, jobs := sha256.Sum256([]byte("web")), sha256.Sum256([]byte("jobs"))
	got, err := config.ParseKeys("f", strings.NewReader(fmt.Sprintf(
		"clients:\n  - {name: web, sha256: %x, priority: interactive}\n  - {name: jobs, sha256: \"%X\", tenant: content}\n", web, jobs)))
	if err != nil {
		t.Fatal(err)
	}
	want := proxy.Keys{
		web:  {Priority: model.PriorityInteractive},
		jobs: {Tenant: "content", Priority: model.PriorityNormal},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestParams(t *testing.T) {
	got, err := config.ParseParams("f", strings.NewReader(
		`{"seq": 7, "name": "calmer", "by": "me", "why": "tuned", "hash": "0011", "params": {"plateau": 12000000000, "climb_double": 500000000}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Params{Name: "calmer", By: "me", Why: "tuned", Values: map[string]int64{"plateau": 12e9, "climb_double": 500000000}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	p, err := got.Apply(model.DefaultParams())
	if err != nil || p.Plateau != 12*model.Second || p.ClimbDouble != 500*model.Millisecond || p.CutShare != model.DefaultParams().CutShare {
		t.Errorf("applied: %+v, %v", p, err)
	}
	short, err := config.ParseParams("f", strings.NewReader("params: {plateau: 12s}"))
	if err != nil || short.Values["plateau"] != 12e9 {
		t.Errorf("a duration reads as %+v, %v", short, err)
	}
}

// TestParamsStayInRange holds every parameter of a file to its range.
func TestParamsStayInRange(t *testing.T) {
	for _, spec := range model.ParamSpecs() {
		for _, v := range []int64{spec.Min - 1, spec.Max + 1} {
			if _, err := config.ParseParams("f", strings.NewReader(fmt.Sprintf("params: {%s: %d}", spec.Name, v))); err == nil {
				t.Errorf("%s: %d is taken, range %d..%d", spec.Name, v, spec.Min, spec.Max)
			}
		}
		p, err := config.ParseParams("f", strings.NewReader(fmt.Sprintf("params: {%s: %d}", spec.Name, spec.Max)))
		if err != nil || p.Values[spec.Name] != spec.Max {
			t.Errorf("%s: %d is refused: %v", spec.Name, spec.Max, err)
		}
	}
	if _, err := config.ParseParams("f", strings.NewReader("params: {no_such: 1}")); err == nil {
		t.Error("an unknown parameter is taken")
	}
}
