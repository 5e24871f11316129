package proxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/agent"
	"weir/model"
)

// place is where in an answer trouble comes.
type place struct {
	name  string
	plain bool // of a whole answer, not of a stream
	// write writes the answer up to the trouble, and the trouble.
	write func(w http.ResponseWriter, s shape)
	// class is what the attempt is; again is set when it may be repeated,
	// since the client has seen nothing.
	class model.Class
	again bool
	// end is what the client's answer then must hold beside what came before.
	end func(s shape) string
}

func places() []place {
	brokenOff := func(shape) string { return "broke off before its end" }
	late := func(s shape) string { return s.late }
	all := func(s shape) string { return strings.Join(s.stop, "") }
	begin := func(w http.ResponseWriter, s shape) {
		stream(w, s.start...)
		more(w, s.delta...)
		pauseShort()
	}
	return []place{
		{"reset before the header", true, func(w http.ResponseWriter, _ shape) { reset(w) }, model.ClassTransport, true, nil},
		{"in the body", true, func(w http.ResponseWriter, _ shape) {
			say(w, 200, `{"type":"error","error":{"type":"overloaded_error","code":"overloaded","message":"Overloaded"}}`)
		}, model.ClassOverloaded, true, nil},
		{"body cut", true, func(w http.ResponseWriter, s shape) {
			w.Header().Set("Content-Length", fmt.Sprint(len(s.whole)))
			say(w, 200, s.whole[:len(s.whole)/2])
		}, model.ClassTransport, true, nil},
		{"status of a stream", false, func(w http.ResponseWriter, _ shape) {
			say(w, 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		}, model.ClassOverloaded, true, nil},
		{"first event", false, func(w http.ResponseWriter, s shape) { stream(w, s.late) }, model.ClassOverloaded, true, nil},
		{"after the opening events", false, func(w http.ResponseWriter, s shape) { stream(w, s.start...); more(w, s.late) }, model.ClassOverloaded, true, nil},
		{"reset after the opening events", false, func(w http.ResponseWriter, s shape) {
			stream(w, s.start...)
			pauseShort()
			reset(w)
		}, model.ClassTransport, true, nil},
		{"cut after the opening events", false, func(w http.ResponseWriter, s shape) { stream(w, s.start...) }, model.ClassTransport, true, nil},
		{"mid-stream", false, func(w http.ResponseWriter, s shape) { begin(w, s); more(w, s.late) }, model.ClassOverloaded, false, late},
		{"reset mid-stream", false, func(w http.ResponseWriter, s shape) { begin(w, s); reset(w) }, model.ClassTransport, false, brokenOff},
		{"reset mid-event", false, func(w http.ResponseWriter, s shape) {
			begin(w, s)
			more(w, s.stop[0][:len(s.stop[0])/2])
			pauseShort()
			reset(w)
		}, model.ClassTransport, false, brokenOff},
		{"reset before the last event's end", false, func(w http.ResponseWriter, s shape) {
			begin(w, s)
			end := strings.Join(s.stop, "")
			more(w, strings.TrimSuffix(end, "\n\n"))
			pauseShort()
			reset(w)
		}, model.ClassOK, false, func(s shape) string {
			_, last, _ := strings.Cut(s.stop[len(s.stop)-1], "data: ")
			return "data: " + last
		}},
		{"cut mid-stream", false, func(w http.ResponseWriter, s shape) { begin(w, s) }, model.ClassTransport, false, brokenOff},
		{"error after the last event", false, func(w http.ResponseWriter, s shape) { begin(w, s); more(w, s.stop...); more(w, s.late) }, model.ClassOK, false, all},
		{"reset after the last event", false, func(w http.ResponseWriter, s shape) {
			begin(w, s)
			more(w, s.stop...)
			pauseShort()
			reset(w)
		}, model.ClassOK, false, all},
		{"left open after the last event", false, func(w http.ResponseWriter, s shape) { begin(w, s); more(w, s.stop...) }, model.ClassOK, false, all},
	}
}

// TestPlacesOfEveryAPI puts trouble at each place of an answer of each API:
// what the client saw nothing of is repeated and it gets a whole answer; what
// it saw is never repeated, and it is told in its API's own shape. Each attempt
// is settled once, with what it used.
func TestPlacesOfEveryAPI(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
		s := shapeOf(path)
		for _, p := range places() {
			t.Run(strings.TrimPrefix(path, "/v1/")+" "+p.name, func(t *testing.T) {
				t.Parallel()
				playPlace(t, path, s, p)
			})
		}
	}
}

func playPlace(t *testing.T, path string, s shape, p place) {
	w := newWorld(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch {
		case n > 1 && p.plain:
			say(w, 200, s.whole)
		case n > 1:
			stream(w, s.start...)
			more(w, s.delta...)
			more(w, s.stop...)
		case strings.HasPrefix(p.name, "left open"):
			stream(w, s.start...)
			more(w, s.delta...)
			more(w, s.stop...)
			<-r.Context().Done()
		default:
			p.write(w, s)
		}
	}, func(c *agent.Config) { c.Fleet.Channels[0].Provider = "" })
	w.earn(4)
	body := `{"model":"route","max_tokens":40,"messages":[],"input":"x","stream":` + fmt.Sprint(!p.plain) + `}`
	got := w.post(path, body)
	if got.status != 200 || got.err != nil {
		t.Fatalf("status %d, %s, %v", got.status, got.body, got.err)
	}
	want := s.whole
	if !p.plain {
		want = strings.Join(slices.Concat(s.start, s.delta, s.stop), "")
		want = strings.Replace(want, usageFrame, "", 1) // it was not asked for
	}
	if p.again && got.body != want {
		t.Errorf("after the repeat the client got %q, want %q", got.body, want)
	}
	if !p.again {
		if end := strings.Replace(p.end(s), usageFrame, "", 1); !strings.Contains(got.body, end) || strings.Count(got.body, s.start[0]) != 1 {
			t.Errorf("the client got %q, which lacks %q or holds two answers", got.body, end)
		}
		if !strings.HasSuffix(got.body, "\n\n") {
			t.Errorf("the last event has no end: %q", got.body)
		}
	}
	all := w.attempts()
	attempts := 1
	if p.again {
		attempts = 2
	}
	if len(all) != attempts || all[0].Class != p.class || all[len(all)-1].Class != model.ClassOK && p.again {
		t.Fatalf("reported %+v, want %d attempts that begin with %v", all, attempts, p.class)
	}
	if last := all[len(all)-1]; last.Class == model.ClassOK && (!last.UsageKnown || last.In != 9 || last.Out != 3) {
		t.Errorf("settled with %+v", last)
	}
	if first := all[0]; p.class == model.ClassTransport && !p.again && (first.In == 0 || first.Out == 0) {
		t.Errorf("what was sent is not counted: %+v", first)
	}
	for _, c := range w.lastReport().Channels {
		if c.InFlight != 0 || c.Queued != 0 {
			t.Errorf("at the end %+v", c)
		}
	}
}

// TestHeldAtMost holds that a stream that says nothing for longer than is held
// passes, and that what comes then is not repeated.
func TestHeldAtMost(t *testing.T) {
	s, seen := shapeOf("/v1/messages"), make(chan struct{})
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		stream(w, s.start...)
		for range 20 {
			more(w, ": "+strings.Repeat("wait ", 200)+"\n\n")
		}
		<-seen
		more(w, s.late)
	})
	w.earn(4)
	resp, err := w.server.Client().Do(w.request(t.Context(), "/v1/messages", streamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	close(seen) // the client has the header, with the first of what was held
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasPrefix(string(body), s.start[0]) || !strings.HasSuffix(string(body), s.late) {
		t.Errorf("got %q, %v", body, err)
	}
	w.wantClasses(t, model.ClassOverloaded)
}
