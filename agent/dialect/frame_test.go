package dialect

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// frames feeds in to a Framer, at most step bytes at a time.
func frames(t *testing.T, in string, step int) (got []string, rest string) {
	t.Helper()
	var f Framer
	for len(in) > 0 {
		n := min(step, len(in))
		if _, err := f.Write([]byte(in[:n])); err != nil {
			t.Fatal(err)
		}
		in = in[n:]
		for p, _ := f.Next(); p != nil; p, _ = f.Next() {
			got = append(got, string(p))
		}
	}
	return got, string(f.Rest())
}

func TestFramer(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
		rest     string
	}{
		{"plain", "data: 1\n\nevent: x\ndata: 2\n\n", []string{"data: 1\n\n", "event: x\ndata: 2\n\n"}, ""},
		{"crlf", "data: 1\r\n\r\ndata: 2\r\n\r\n", []string{"data: 1\r\n\r\n", "data: 2\r\n\r\n"}, ""},
		{"cr", "data: 1\r\rdata: 2\r\r", []string{"data: 1\r\r", "data: 2\r\r"}, ""},
		{"cut", "data: 1\n\ndata: 2\n", []string{"data: 1\n\n"}, "data: 2\n"},
		{"json", `{"error":"no stream"}`, nil, `{"error":"no stream"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 1000} {
				got, rest := frames(t, tt.in, step)
				whole := strings.Join(got, "") + rest
				if whole != tt.in {
					t.Fatalf("step %d: bytes changed: %q", step, whole)
				}
				if step == 1000 {
					if diff := cmp.Diff(tt.want, got); diff != "" || rest != tt.rest {
						t.Errorf("step %d: %s rest %q", step, diff, rest)
					}
				}
			}
		})
	}
}

func TestFramerBounds(t *testing.T) {
	var f Framer
	piece := bytes.Repeat([]byte("x"), 1000)
	var out, in int
	for range 10_000 {
		_, _ = f.Write(piece)
		in += len(piece)
		for p, whole := f.Next(); p != nil; p, whole = f.Next() {
			if whole {
				t.Fatal("a piece was called whole")
			}
			out += len(p)
		}
		if held := cap(f.buf); held > 4*MaxFrame {
			t.Fatalf("holds %d bytes", held)
		}
	}
	_, _ = f.Write([]byte("\n\ndata: 1\n\n"))
	p, whole := f.Next()
	out += len(p)
	if whole || out != in+2 {
		t.Errorf("end of the long frame: whole %v, %d bytes of %d", whole, out, in+2)
	}
	if p, whole = f.Next(); string(p) != "data: 1\n\n" || !whole {
		t.Errorf("next frame %q, whole %v", p, whole)
	}
}

func FuzzFramer(f *testing.F) {
	f.Add("data: 1\r\n\r\ndata: 2\n\n\n\r\r\n", 3)
	f.Fuzz(func(t *testing.T, in string, step int) {
		if step <= 0 || step > 1<<20 {
			return
		}
		got, rest := frames(t, in, step)
		if whole := strings.Join(got, "") + rest; whole != in {
			t.Fatalf("got %q, want %q", whole, in)
		}
	})
}

func TestUsageOnly(t *testing.T) {
	for in, want := range map[string]bool{
		`data: {"choices":[],"usage":{"prompt_tokens":1}}`:                 true,
		`data:{"usage":{"a":{}},"choices": [ ] ,"id":"x"}`:                 true,
		`data: {"choices":[],"usage":null}`:                                false,
		`data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}`:     false,
		`data: {"usage":{"prompt_tokens":1}}`:                              false,
		`data: {"choices":[],"usage":{},"error":{"code":"x"}}`:             false,
		`data: {"choices":[],"usage":{},"base_resp":{"status_code":2064}}`: false,
		`data: [DONE]`:                                false,
		`data: {"choices":[],"usage":{}`:              false,
		"data: {\"choices\":[],\ndata: \"usage\":{}}": false,
		`data: {"choices":[{"delta":{"content":"say \"usage\" and \"choices\":[]"}}]}`: false,
	} {
		if got := UsageOnly([]byte(in + "\n\n")); got != want {
			t.Errorf("UsageOnly(%s) = %v, want %v", in, got, want)
		}
	}
}
