package dialect

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/model"
)

func TestParseBody(t *testing.T) {
	long := strings.Repeat("m", maxModel+1)
	for _, tt := range []struct {
		name, in string
		want     Body
		err      error
	}{
		{"plain", `{"model":"a","messages":[]}`, Body{Model: "a"}, nil},
		{"spaced", " {\n\t\"model\" : \"a\" , \"stream\" : true }\r\n", Body{Model: "a", Stream: true}, nil},
		{"last one counts", `{"model":"a","model":"b","stream":true,"stream":false}`, Body{Model: "b"}, nil},
		{"escaped key", `{"mod\u0065l":"\u0061"}`, Body{Model: "a"}, nil},
		{"nested is not it", `{"x":{"model":"no","stream":true},"model":"a","y":["model"]}`, Body{Model: "a"}, nil},
		{"bounds", `{"model":"a","max_tokens":10,"max_completion_tokens":20.0}`, Body{Model: "a", MaxOutput: 20}, nil},
		{"absurd bounds", `{"model":"a","max_tokens":-3,"max_output_tokens":1e300}`, Body{Model: "a", MaxOutput: maxOutput}, nil},
		{"worded bound", `{"model":"a","max_tokens":"many"}`, Body{Model: "a"}, nil},
		{"no more members than are looked at", `{"model":"a"` + strings.Repeat(`,"Model":1`, maxMembers-1) + `}`, Body{Model: "a"}, nil},
		{"members without end", `{"model":"a"` + strings.Repeat(`,"model":1`, maxMembers) + `}`, Body{}, ErrManyMembers},
		{"usage", `{"model":"a","stream_options":{"include_usage":true}}`, Body{Model: "a", WantsUsage: true}, nil},
		{"usage no", `{"model":"a","stream_options":{"include_usage":false}}`, Body{Model: "a"}, nil},
		{"no model", `{"messages":[]}`, Body{}, ErrNoModel},
		{"model is null", `{"model":null}`, Body{}, ErrNoModel},
		{"model in other case", `{"Model":"a"}`, Body{}, ErrNoModel},
		{"later model no string", `{"model":"a","model":1}`, Body{}, ErrNoModel},
		{"long model", `{"model":"` + long + `"}`, Body{}, ErrNoModel},
		{"array", `[{"model":"a"}]`, Body{}, ErrNotJSON},
		{"empty", ``, Body{}, ErrNotJSON},
		{"cut", `{"model":"a"`, Body{}, ErrNotJSON},
		{"two", `{"model":"a"}{"model":"b"}`, Body{}, ErrNotJSON},
		{"deep", strings.Repeat("[", 1<<20), Body{}, ErrNotJSON},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseBody([]byte(tt.in))
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if err != nil {
				return
			}
			public := Body{Model: got.Model, Stream: got.Stream, MaxOutput: got.MaxOutput, WantsUsage: got.WantsUsage}
			if diff := cmp.Diff(tt.want, public, cmp.AllowUnexported(Body{}), cmp.AllowUnexported(member{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRewrite(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"model only", `{ "model" : "a","x":1.00 }`, `{ "model" : "M\"1","x":1.00 }`},
		{"every model", `{"model":"a","Model":["z"],"model":"b"}`, `{"model":"M\"1","Model":"M\"1","model":"M\"1"}`},
		{"usage new", `{"model":"a","stream":true}`, `{"stream_options":{"include_usage":true},"model":"M\"1","stream":true}`},
		{"usage off", `{"stream":true,"stream_options":{"include_usage": false },"model":"a"}`, `{"stream":true,"stream_options":{"include_usage": true },"model":"M\"1"}`},
		{"usage into empty", `{"model":"a","stream_options":{ },"stream":true}`, `{"model":"M\"1","stream_options":{"include_usage":true },"stream":true}`},
		{"usage beside", `{"model":"a","stream_options":{"k":[]},"stream":true}`, `{"model":"M\"1","stream_options":{"include_usage":true,"k":[]},"stream":true}`},
		{"usage for null", `{"stream_options":null,"model":"a","stream":true}`, `{"stream_options":{"include_usage":true},"model":"M\"1","stream":true}`},
		{"usage wanted", `{"model":"a","stream":true,"stream_options":{"include_usage":true}}`, `{"model":"M\"1","stream":true,"stream_options":{"include_usage":true}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := ParseBody([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			r := b.Rewrite(Chat, `M"1`, true, nil)
			got, err := io.ReadAll(r.Reader())
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if r.Size() != int64(len(got)) {
				t.Errorf("size %d, want %d", r.Size(), len(got))
			}
			if again, _ := io.ReadAll(r.Reader()); string(again) != string(got) {
				t.Errorf("second reader gave %s", again)
			}
		})
	}
}

// FuzzBody holds what the whole package leans on: a body that is taken has one
// model for every parser, stays JSON, and keeps all other members.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		`{"model":"a","stream":true}`, `{"mod\u0065l":"a","stream_options":{}}`, `{"model":"a","stream":true,"stream_options":[1]}`,
		`{"model":"a","MODEL":{"b":"\""},"stream":true,"stream_options":{"include_usage":0,"a":"}"}}`, `{"a":"\\","model":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := ParseBody(raw)
		if err != nil {
			return
		}
		out, err := io.ReadAll(b.Rewrite(Chat, "channel-model", true, nil).Reader())
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]any
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", raw, out, err)
		}
		if err := json.Unmarshal(raw, &before); err != nil {
			t.Fatal(err)
		}
		var typed struct{ Model string }
		if err := json.Unmarshal(out, &typed); err != nil || typed.Model != "channel-model" {
			t.Fatalf("%q: model %q, %v", out, typed.Model, err)
		}
		if b.Stream {
			options, _ := after["stream_options"].(map[string]any)
			if options["include_usage"] != true {
				t.Fatalf("%q does not ask for usage", out)
			}
		}
		for k := range before {
			if strings.EqualFold(k, "model") || k == "stream_options" {
				delete(before, k)
				delete(after, k)
			}
		}
		delete(after, "stream_options")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestOutput(t *testing.T) {
	b := Body{}
	for _, tt := range []struct {
		d    Dialect
		max  model.Tokens
		want model.Tokens
	}{{Chat, 0, 700}, {Chat, 20, 20}, {Embeddings, 20, 0}, {Other, 0, 700}} {
		b.MaxOutput = tt.max
		if got := b.Output(tt.d, 700); got != tt.want {
			t.Errorf("Output(%v) with bound %d = %d, want %d", tt.d, tt.max, got, tt.want)
		}
	}
}

// FuzzLeaveOut holds that what is left out is gone, that the rest is there as
// it was, and that the body is JSON still.
func FuzzLeaveOut(f *testing.F) {
	for _, seed := range []string{
		`{"model":"a","x":1}`, `{"x":1,"model":"a"}`, `{"x":1,"x":2,"model":"a","y":[1,2],"x":{}}`, ` { "y" : "}" , "x":"\"" , "model":"a"  } `,
		`{"x":1,"stream":true,"model":"a"}`, `{"stream":true,"x":1,"stream_options":{},"model":"a"}`, `{"\u0078":1,"model":"a"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		b, err := ParseBody([]byte(in))
		if err != nil {
			return
		}
		out, err := io.ReadAll(b.Rewrite(Chat, "channel-model", true, []string{"x", "y", "model"}).Reader())
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]any
		if err := json.Unmarshal([]byte(in), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		for _, name := range []string{"x", "y"} {
			if _, left := after[name]; left {
				t.Fatalf("%q became %q", in, out)
			}
			delete(before, name)
		}
		for k := range before {
			if strings.EqualFold(k, "model") || k == "stream_options" {
				delete(before, k)
				delete(after, k)
			}
		}
		delete(after, "stream_options")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("%q became %q: %s", in, out, diff)
		}
		if b.Has([]string{"x"}) != "" && b.Has([]string{"no", "x"}) != "x" {
			t.Fatal("a member is there and is not")
		}
	})
}
