package strict_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/go-cmp/cmp"

	"weir/sim/strict"
)

// shop is what the tests read.
type shop struct {
	Name   string
	About  string
	Kind   string
	Size   int64
	Share  int64
	Wait   time.Duration
	Open   bool
	Parts  []string
	Number []int64
}

func read(name, text string) (shop, error) {
	s := shop{Kind: "small", Size: 7}
	r, body, err := strict.Document(name, strings.NewReader(text))
	if err != nil {
		return s, err
	}
	r.OnNumber = func(n *int64) { s.Number = append(s.Number, *n) }
	f := r.Mapping(body, "")
	if f == nil {
		return s, r.Err()
	}
	f.Need("name")
	f.Name("name", &s.Name)
	f.Text("about", &s.About)
	strict.Choose(f, "kind", &s.Kind, "small", "large")
	f.Count("size", &s.Size, 1, 10)
	f.Ratio("share", &s.Share, 0, strict.PPM)
	f.Span("wait", &s.Wait, time.Second)
	f.Flag("open", &s.Open)
	f.List("parts", func(n ast.Node, path string) {
		if p := r.Mapping(n, path); p != nil {
			var name string
			p.Name("name", &name)
			p.Get("of")
			p.Done()
			s.Parts = append(s.Parts, name)
		}
	})
	if c := f.Child("inner"); c != nil {
		c.Done()
	}
	f.Done()
	names := r.Names(f, "parts")
	f.Each("parts", func(p *strict.Fields) { r.Refer(p, "of", "part", names) })
	return s, r.Err()
}

func TestRead(t *testing.T) {
	got, err := read("f", "name: a\nabout: 12\nkind: large\nsize: 1_0\nshare: 0.25\nwait: 90s\nopen: true\nparts: [{name: x}, {name: y, of: x}]\n")
	want := shop{
		Name: "a", About: "12", Kind: "large", Size: 10, Share: 250_000, Wait: 90 * time.Second, Open: true,
		Parts: []string{"x", "y"}, Number: []int64{10, 250_000, int64(90 * time.Second)},
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestAbsentKeysLeaveDefaults(t *testing.T) {
	got, err := read("f", "name: a\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != "small" || got.Size != 7 {
		t.Errorf("defaults are gone: %+v", got)
	}
}

func TestFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"all at once, by line": {
			"kind: tiny\nsize: 11\nshare: x\nwait: 1\nopen: yes please\nextra: 1\nparts:\n  - {name: x}\n  - {name: x, of: z}\ninner: {deep: 1}\n",
			[]string{
				"f:1:1: name: missing",
				`f:1:7: kind: must be one of small, large, got "tiny"`,
				`f:2:7: size: must be from 1 to 10, got "11"`,
				`f:3:8: share: must be a number, got "x"`,
				`f:4:7: wait: must be a duration such as 500ms, 90s or 1h30m, got "1"`,
				`f:5:7: open: must be true or false, got "yes please"`,
				"f:6:1: extra: unknown key; known here: about, inner, kind, name, open, parts, share, size, wait",
				`f:9:12: parts[1]: the name "x" is used twice`,
				`f:9:19: there is no part named "z"`,
				"f:10:9: inner.deep: unknown key; known here: ",
			},
		},
		"no mapping":  {"[1]", []string{"f:1:1: the file: must be a mapping of keys"}},
		"no list":     {"name: a\nparts: 3\n", []string{"f:2:8: parts: must be a list"}},
		"merge key":   {"name: a\ninner:\n  <<: {a: 1}\n", []string{"f:3:3: inner.<<: merge keys are not supported"}},
		"bad name":    {"name: a b\n", []string{`f:1:7: name: a name is 1 to 64 letters, digits, '.', '_' or '-', got "a b"`}},
		"half number": {"name: a\nsize: 1.5\n", []string{`f:2:7: size: must be a whole number, got "1.5"`}},
		"no text":     {"name: a\nabout: [1]\n", []string{"f:2:8: about: must be a text"}},
		"empty":       {"", []string{"f:1:1: must hold one YAML document, holds 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read("f", tt.text)
			if _, ok := errors.AsType[*strict.ParseError](err); !ok {
				t.Fatalf("got %v, want a ParseError", err)
			}
			var got []string
			for line := range strings.SplitSeq(err.Error(), "\n") {
				got = append(got, line)
			}
			for i := range tt.want {
				tt.want[i] = strings.TrimSpace(tt.want[i])
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: a\nparts:\n")
	for range 3 * strict.MaxFaults {
		b.WriteString("  - {bad: 1}\n")
	}
	_, err := read("f", b.String())
	var faults *strict.ParseError
	if !errors.As(err, &faults) || len(faults.Faults) != strict.MaxFaults+1 {
		t.Fatalf("got %v", err)
	}
	if last := faults.Faults[strict.MaxFaults].Text; last != "and 200 more faults" {
		t.Errorf("the last line is %q", last)
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	if _, _, err := strict.Document("f", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
