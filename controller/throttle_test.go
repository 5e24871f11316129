package controller

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestThrottle writes many lines at once: some pass, the others are counted.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := throttled(slog.New(slog.NewTextHandler(&out, nil))).With(slog.String("a", "b"))
		for range 10_000 {
			log.Warn("knock")
		}
		if n := strings.Count(out.String(), "\n"); n != throttleBurst || strings.Contains(out.String(), "left_out") {
			t.Errorf("%d lines of ten thousand: %.300s", n, &out)
		}
		out.Reset()
		time.Sleep(3 * throttleEvery)
		for range 10 {
			log.Warn("knock")
		}
		if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), "left_out_before=9900") {
			t.Errorf("%d lines after a while: %s", n, &out)
		}
	})
}
