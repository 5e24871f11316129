package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"weir/model"
)

// TestRandomAnswers lets a provider say anything, cut anywhere, and holds what
// must always be: the client gets an end that is one, nothing is repeated after
// it saw a byte, and every attempt is settled once.
func TestRandomAnswers(t *testing.T) {
	type answer struct {
		status int
		kind   string
		pieces []string
		reset  bool
	}
	var next atomic.Pointer[answer]
	var calls atomic.Int64
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		a := next.Load()
		w.Header().Set("Content-Type", a.kind)
		w.WriteHeader(a.status)
		for _, p := range a.pieces {
			_, _ = io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
		if a.reset {
			reset(w)
		}
	})
	frames := []string{roleFrame, textFrame, finishFrame, usageFrame, doneFrame, busyFrame, ": ping\n\n", "data: {\"cut\":", "\r\n\r\n", "event: error\n", goodAnswer, busyAnswer, strings.Repeat("z", 20_000), "\x00\xff"}
	rapid.Check(t, func(rt *rapid.T) {
		a := &answer{
			status: rapid.SampledFrom([]int{200, 200, 200, 400, 429, 500, 302, 204}).Draw(rt, "status"),
			kind:   rapid.SampledFrom([]string{"text/event-stream", "application/json", ""}).Draw(rt, "kind"),
			reset:  rapid.Bool().Draw(rt, "reset"),
		}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(frames), 0, 8).Draw(rt, "frames"), "")
		for len(text) > 0 && len(a.pieces) < 6 {
			n := rapid.IntRange(1, len(text)).Draw(rt, "piece")
			a.pieces, text = append(a.pieces, text[:n]), text[n:]
		}
		next.Store(a)
		body := rapid.SampledFrom([]string{plainBody, streamBody}).Draw(rt, "body")
		r := w.request(t.Context(), "/v1/chat/completions", body, "X-Weir-Deadline-Ms", "3000")
		resp, err := w.server.Client().Do(r)
		if err != nil {
			return // the answer's header itself did not come whole
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if resp.StatusCode >= 400 && resp.StatusCode != 400 && resp.StatusCode != 429 && resp.StatusCode != 503 {
			rt.Errorf("status %d: %s", resp.StatusCode, got)
		}
		if resp.StatusCode >= 400 && (err != nil || len(got) == 0 && a.status != 400) {
			rt.Errorf("a refusal without a body: %v", err)
		}
		// The last event may lack its end, which the sidecar makes up for.
		said := strings.TrimSpace(textFrame)
		if strings.Count(string(got), said) > strings.Count(strings.Join(a.pieces, ""), said) {
			rt.Errorf("text was repeated: %q", got)
		}
	})
	all := w.attempts()
	unheard := int64(0) // the connection broke before the provider's handler ran
	for _, a := range all {
		if a.Class == model.ClassTransport && a.Status == 0 {
			unheard++
		}
	}
	if n := int64(len(all)); n < calls.Load() || n-unheard > calls.Load() {
		t.Errorf("%d attempts are reported, %d of them unheard, %d were heard", n, unheard, calls.Load())
	}
	for _, a := range all {
		if a.Class < model.ClassOK || a.Class > model.ClassCanceled || a.Rule == "" {
			t.Errorf("reported %+v", a)
		}
	}
	for _, c := range w.lastReport().Channels {
		if c.InFlight != 0 {
			t.Errorf("at the end %+v", c)
		}
	}
}
