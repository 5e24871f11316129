package classify

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// want is what a case of testdata expects; absent members are not compared.
type want struct {
	Class     string           `json:"class"`
	Retry     *json.RawMessage `json:"retry"` // seconds or null
	Dimension *string          `json:"dimension"`
	Limit     *int64           `json:"limit"`
	Remaining *int64           `json:"remaining"`
	Scope     *string          `json:"scope"`
	Code      *string          `json:"code"`
	Rule      string           `json:"rule"` // up to its version
}

// shippedRules is the classifier without tables of a user.
var shippedRules = sync.OnceValues(func() (*Classifier, error) { return New() })

func newClassifier(t testing.TB, tables ...Table) *Classifier {
	t.Helper()
	if len(tables) == 0 {
		c, err := shippedRules()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, err := New(tables...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCases judges the answers of testdata/*.jsonl, each as a whole and as a
// stream cut into pieces, which must not matter.
func TestCases(t *testing.T) {
	c := newClassifier(t)
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			number := 0
			for line := range bytes.Lines(data) {
				number++
				checkCase(t, c, number, line)
			}
		})
	}
}

func checkCase(t *testing.T, c *Classifier, number int, line []byte) {
	t.Helper()
	var expect struct {
		Want want `json:"want"`
	}
	if err := json.Unmarshal(line, &expect); err != nil {
		t.Fatalf("line %d: %v", number, err)
	}
	a, id, err := parseLine(line)
	if err != nil {
		t.Fatalf("line %d: %v", number, err)
	}
	v := c.Classify(a)
	compare(t, string(id), v.result(id), expect.Want)
	for _, size := range []int{1, 7, 1 << 20} {
		s := c.Stream(a)
		for b := a.Body; len(b) > 0; b = b[min(size, len(b)):] {
			_, _ = s.Write(b[:min(size, len(b))])
		}
		streamed := s.Close(a.Now, a.TransportError)
		if got, want := streamed.Class, v.Class; got != want && a.Status >= 200 {
			t.Errorf("%s: in pieces of %d: class %v by %s, want %v as in one by %s", id, size, got, streamed.Rule, want, v.Rule)
		}
	}
}

func compare(t *testing.T, id string, got *result, want want) {
	t.Helper()
	if got.Class != want.Class {
		t.Errorf("%s: class %s by %s, want %s", id, got.Class, got.Rule, want.Class)
	}
	check := func(what string, is, want any, told bool) {
		g, _ := json.Marshal(is)
		w, _ := json.Marshal(want)
		if told && string(g) != string(w) {
			t.Errorf("%s: %s is %s by %s, want %s", id, what, g, got.Rule, w)
		}
	}
	check("retry_after_s", got.RetryAfter, want.Retry, want.Retry != nil)
	check("dimension", got.Dimension, want.Dimension, want.Dimension != nil)
	check("limit", got.Limit, want.Limit, want.Limit != nil)
	check("remaining", got.Remaining, want.Remaining, want.Remaining != nil)
	check("scope", got.Scope, want.Scope, want.Scope != nil)
	check("code", got.Code, want.Code, want.Code != nil)
	if rule, _, _ := strings.Cut(got.Rule, "@"); want.Rule != "" && rule != want.Rule {
		t.Errorf("%s: rule %s, want %s", id, rule, want.Rule)
	}
}
