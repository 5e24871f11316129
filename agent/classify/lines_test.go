package classify

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLines(t *testing.T) {
	in := strings.Join([]string{
		`{"id":"a","http_status":429,"headers":{"RETRY-AFTER":"9","x-n":7,"x-list":["a","b"]},"body":"{\"error\":{\"code\":\"slow\",\"message\":\"limit of 60 requests per minute\"}}","colour":"red"}`,
		``,
		`not json`,
		`{"id":2,"http_status":200,"stream":true,"sse":["data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n","data: [DONE]\n\n"]}`,
		`{"id":"c","http_status":"x"}`,
		`{"id":"d","now":"yesterday"}`,
		`{"http_status":0,"transport_error":"refused"}`,
	}, "\n")
	var out, faults strings.Builder
	bad, err := Lines(strings.NewReader(in), &out, &faults, newClassifier(t))
	if bad != 3 || err != nil {
		t.Errorf("%d bad lines, error %v; want 3, none", bad, err)
	}
	want := `{"id":"a","class":"rate_limited","retryable":true,"retry_after_s":9,"dimension":"requests","limit":60,"remaining":null,"scope":"channel","code":"slow","rule":"generic/short-window@3"}
{"id":2,"class":"ok","retryable":false,"retry_after_s":null,"dimension":null,"limit":null,"remaining":null,"scope":"request","code":null,"rule":"law/stream@1"}
{"id":null,"class":"transport","retryable":true,"retry_after_s":null,"dimension":null,"limit":null,"remaining":null,"scope":"channel","code":null,"rule":"law/no-answer@1"}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	for i, start := range []string{"line 3: parse answer: ", "line 5: parse answer: ", "line 6: parse now: "} {
		if lines := strings.Split(faults.String(), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[i], start) {
			t.Errorf("faults %q, want three, one beginning with %q", lines, start)
		}
	}
}

func TestLinesTooLong(t *testing.T) {
	in := `{"id":"` + strings.Repeat("x", maxLine) + "\"}\n" + `{"id":"b","http_status":500}`
	var out, faults strings.Builder
	bad, err := Lines(strings.NewReader(in), &out, &faults, newClassifier(t))
	if bad != 1 || err != nil || !strings.HasPrefix(out.String(), `{"id":"b","class":"overloaded"`) {
		t.Errorf("%d bad lines, error %v, output %q", bad, err, out.String())
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errors.New("gone") }
func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestLinesTrouble(t *testing.T) {
	c := newClassifier(t)
	if _, err := Lines(failing{}, &strings.Builder{}, &strings.Builder{}, c); err == nil || !strings.Contains(err.Error(), "read line 1: gone") {
		t.Errorf("error %v, want that of the reader", err)
	}
	if _, err := Lines(strings.NewReader("{}\n"), failing{}, &strings.Builder{}, c); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("error %v, want that of the writer", err)
	}
}
