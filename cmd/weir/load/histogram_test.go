package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHistogramQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 200).Draw(t, "values")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h Histogram
		for _, v := range values {
			h.Add(time.Duration(v))
		}
		slices.Sort(values)
		rank := max(1, int(math.Ceil(q*float64(len(values)))))
		want := time.Duration(values[rank-1])
		got, ok := h.Quantile(q)
		if width := want/32 + time.Microsecond; !ok || got < want-width || got > want+width {
			t.Fatalf("quantile %v of %d values: got %v, want %v", q, len(values), got, want)
		}
	})
}

func TestHistogramEdges(t *testing.T) {
	var h Histogram
	if _, ok := h.Quantile(0.5); ok {
		t.Error("an empty histogram has a median")
	}
	h.Add(-time.Second)
	h.Add(math.MaxInt64)
	if d, ok := h.Quantile(0); !ok || d != 0 {
		t.Errorf("least is %v, want 0", d)
	}
	if h.N() != 2 || h.Max() != math.MaxInt64 {
		t.Errorf("%d durations up to %v", h.N(), h.Max())
	}
}
