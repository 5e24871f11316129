package model

import "testing"

func TestSaid(t *testing.T) {
	for in, want := range map[Nanos]string{
		0: "0s", 1: "1ns", 999: "999ns", 1_234_567_891: "1.23s", 15_000_123_456: "15s", 24_960_000_000: "25s",
		61_234_567_891: "1m1.2s", 3_723_456_000_000: "1h2m3s", 89_221_400: "89.2ms", 999_999_999: "1s", 120 * Second: "2m0s",
		-1_234_567: "-1.234567ms", forever: "2562047h47m16.854775807s",
	} {
		if got := said(in).String(); got != want {
			t.Errorf("%d is said as %s, want %s", in, got, want)
		}
	}
}
