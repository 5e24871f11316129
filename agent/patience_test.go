package agent

import (
	"net/http"
	"testing"
	"time"
)

// TestPatience reads what SDKs say, and what can be no wait at all.
func TestPatience(t *testing.T) {
	const whole, read = "X-Stainless-Timeout", "X-Stainless-Read-Timeout"
	for _, tt := range []struct {
		header []string
		want   time.Duration // 0 for nothing
	}{
		{nil, 0},
		{[]string{whole, "600"}, 10 * time.Minute},
		{[]string{read, "0.5"}, 500 * time.Millisecond},
		{[]string{read, "600.0", whole, "20"}, 20 * time.Second},
		{[]string{read, "7.25", whole, "NOT_GIVEN"}, 7250 * time.Millisecond},
		{[]string{whole, "0"}, 0},
		{[]string{whole, "-1"}, 0},
		{[]string{whole, "-0.0", read, "None"}, 0},
		{[]string{whole, "NaN"}, 0},
		{[]string{whole, "-Inf"}, 0},
		{[]string{whole, "Inf"}, 0},
		{[]string{whole, "1e400"}, 0},
		{[]string{whole, "1e300"}, longestDeadline},
		{[]string{whole, "99999999999999999999999"}, longestDeadline},
		{[]string{whole, "1e-300"}, 0},
		{[]string{whole, "20s"}, 0},
		{[]string{whole, " 20"}, 0},
		{[]string{whole, ""}, 0},
	} {
		h := http.Header{}
		for i := 0; i+1 < len(tt.header); i += 2 {
			h.Set(tt.header[i], tt.header[i+1])
		}
		if got, ok := patience(h); got != tt.want || ok != (tt.want > 0) {
			t.Errorf("%q: %v, %v; want %v", tt.header, got, ok, tt.want)
		}
	}
}
