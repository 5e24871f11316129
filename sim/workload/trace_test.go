package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func read(t *testing.T, text string) Trace {
	t.Helper()
	trace, err := ReadTrace("t", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func TestReadTraceKnowsPublicColumns(t *testing.T) {
	want := Trace{{0, 4808, 10}, {52 * ms, 3180, 8}}
	for name, text := range map[string]string{
		"date and time": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n",
		"milliseconds":  "timestamp_ms,input_length,output_length,more\n1000,4808,10,x\n1052,3180,8,y\n",
		"seconds":       "output_tokens,at_s,input_tokens\n8,1.052,3180\n10,1,4808\n", // out of order
	} {
		if d := cmp.Diff(want, read(t, text)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestRowsOfARoundedClockAreSpread(t *testing.T) {
	trace := read(t, "at_s,input_tokens,output_tokens\n0,1,1\n0,1,1\n0,1,1\n3,1,1\n3,1,1\n")
	var at []time.Duration
	for _, r := range trace {
		at = append(at, time.Duration(r.At))
	}
	want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4500 * time.Millisecond}
	if d := cmp.Diff(want, at); d != "" {
		t.Errorf("arrivals (-want +got):\n%s", d)
	}
}

func TestReadTraceRefusesWithTheLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":      {"", "header"},
		"no columns": {"a,b\n1,2\n", "columns"},
		"no rows":    {"at_s,input_tokens,output_tokens\n", "no rows"},
		"bad time":   {"at_s,input_tokens,output_tokens\n0,1,1\nsoon,1,1\n", "t:3: "},
		"far time":   {"at_s,input_tokens,output_tokens\n1e300,1,1\n", "t:2: "},
		"old date":   {"timestamp,input_tokens,output_tokens\n0001-01-01 00:00:00,1,1\n", "t:2: "},
		"negative":   {"at_s,input_tokens,output_tokens\n0,-1,1\n", "t:2: "},
		"nan":        {"at_s,input_tokens,output_tokens\n0,NaN,1\n", "t:2: "},
		"huge":       {"at_s,input_tokens,output_tokens\n0,1e12,1\n", "t:2: "},
		"short row":  {"at_s,input_tokens,output_tokens\n0,1\n", "line 2"},
	} {
		_, err := ReadTrace("t", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

// uniform is a trace of n rows a second apart, each with its own input size.
func uniform(n int) Trace {
	trace := make(Trace, n)
	for i := range trace {
		trace[i] = Row{int64(i) * sec, int64(i + 1), 1}
	}
	return trace
}

func TestTraceScalesByThinningAndByAddingClients(t *testing.T) {
	for scale, want := range map[string][2]int{"0.3": {230, 370}, "1": {1000, 1000}, "2.5": {2400, 2600}} {
		inc := world(t, "arrivals: {kind: trace, file: f, scale: "+scale+"}\nstop: 2h\ninput_tokens: {kind: trace}\noutput_tokens: {kind: trace}")
		all := drain(t, generator(t, inc, map[string]Trace{"f": uniform(1000)}), 7200*sec)
		if len(all) < want[0] || len(all) > want[1] {
			t.Errorf("scale %s: %d of 1000 rows, want %v", scale, len(all), want)
		}
		perCopy := map[uint64][]int64{}
		for _, r := range all {
			perCopy[r.ID>>streamBits] = append(perCopy[r.ID>>streamBits], r.At)
			if r.Output != 1 || r.Input < 1 || r.Input > 1000 {
				t.Fatalf("request %+v has not the size of a row", r)
			}
		}
		for c, at := range perCopy {
			for i := 1; i < len(at); i++ {
				if gap := at[i] - at[i-1]; gap < sec {
					t.Fatalf("scale %s, copy %x: gap %v, the trace has none below 1s", scale, c, time.Duration(gap))
				}
			}
		}
	}
}

func TestTraceNeedsItsFile(t *testing.T) {
	inc := world(t, "arrivals: {kind: trace, file: f}"+fixed)
	if _, err := New(inc, 1, nil); err == nil {
		t.Error("no error without the trace")
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n")
	f.Add("timestamp_ms,input_length,output_length\n0,1,2\n0,1,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ReadTrace("t", strings.NewReader(text))
		if err != nil {
			return
		}
		last := int64(0)
		for _, r := range trace {
			if r.At < last || r.Input < 0 || r.Output < 0 {
				t.Fatalf("row %+v after %d", r, last)
			}
			last = r.At
		}
	})
}
