package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/events"
	"weir/events/journal"
	"weir/model"
)

// The parts of a provider's answer, whole and streamed.
const (
	placeWhole  = `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`
	placeRole   = `data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	placeText   = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"
	placeFinish = `data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}` + "\n\n"
	placeDone   = "data: [DONE]\n\n"
)

// placeFault is one kind of trouble: what the provider says, or nothing where
// the connection is reset, or, of a call that is canceled, left by its client.
type placeFault struct {
	class   model.Class
	status  int
	says    string
	retried bool
	told    int // the status of an answer of which the client saw nothing
}

func placeFaults() []placeFault {
	return []placeFault{
		{model.ClassRateLimited, 429, `{"error":{"message":"Rate limit reached on requests per min","type":"requests","code":"rate_limit_exceeded"}}`, true, 429},
		{model.ClassOverloaded, 503, `{"error":{"message":"The server is overloaded","type":"server_error","code":"server_is_overloaded"}}`, true, 503},
		{model.ClassQuotaExhausted, 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, false, 429},
		{model.ClassAuth, 401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, false, 503},
		{model.ClassInvalid, 400, `{"error":{"message":"maximum context length exceeded","type":"invalid_request_error","code":"context_length_exceeded"}}`, false, 400},
		{model.ClassTransport, 0, "", true, 503},
		{model.ClassCanceled, 0, "", false, 0},
	}
}

// placeNames are where trouble comes.
var placeNames = [...]string{"before", "body", "first", "mid", "after"}

// placeServer is a provider whose trouble is in the name of the model.
type placeServer struct {
	mu    sync.Mutex
	calls map[string]int // by model
	seen  chan struct{}  // a client has the first of its answer
	// stuck hears of a call that is to be left, left of one whose client did.
	stuck, left chan struct{}
}

func (s *placeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for _, f := range placeFaults() {
		for _, place := range placeNames {
			name := f.class.String() + "-" + place
			if !strings.Contains(string(body), `"`+name+`"`) {
				continue
			}
			s.mu.Lock()
			s.calls[name]++
			s.mu.Unlock()
			s.play(w, r, f, place)
			return
		}
	}
	http.Error(w, "no such model", http.StatusNotFound)
}

func (s *placeServer) play(w http.ResponseWriter, r *http.Request, f placeFault, place string) {
	send := func(status int, kind string, pieces ...string) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		for _, p := range pieces {
			_, _ = io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
	fault := func() { // says what is wrong in a stream, is left, or breaks off
		switch {
		case f.says != "":
			_, _ = io.WriteString(w, "data: "+f.says+"\n\n")
		case f.class == model.ClassCanceled:
			s.stuck <- struct{}{}
			select {
			case <-r.Context().Done():
				s.left <- struct{}{}
			case <-time.After(patience): // the test fails by what comes of it
			}
		default:
			resetAfter(w, 20*time.Millisecond)
		}
	}
	switch {
	case place == "before" && f.says != "":
		send(f.status, "application/json", f.says)
	case place == "before":
		fault()
	case place == "body" && f.says != "":
		send(200, "application/json", f.says)
	case place == "body":
		w.Header().Set("Content-Length", fmt.Sprint(len(placeWhole)))
		send(200, "application/json", placeWhole[:60])
		fault()
	case place == "first":
		send(200, "text/event-stream", placeRole)
		fault()
	case place == "mid":
		send(200, "text/event-stream", placeRole, placeText)
		if f.class != model.ClassCanceled {
			select {
			case <-s.seen:
			case <-time.After(10 * time.Second): // the test fails by what comes of it
			}
		}
		fault()
	default:
		send(200, "text/event-stream", placeRole, placeText, placeFinish, placeDone)
		fault()
	}
}

// resetAfter resets the connection once what was sent has arrived.
func resetAfter(w http.ResponseWriter, d time.Duration) {
	time.Sleep(d)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// newPlaces starts a controller and a sidecar with a route for each case, so
// that what one breaks is not another's.
func newPlaces(t *testing.T) (*fleet, *placeServer) {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), agent: freeAddress(t), http: freeAddress(t), nats: freeAddress(t)}
	s := &placeServer{calls: map[string]int{}, seen: make(chan struct{}, 1), stuck: make(chan struct{}, 1), left: make(chan struct{}, 1)}
	up := httptest.NewServer(s)
	t.Cleanup(up.Close)
	text := fmt.Sprintf("fleet: test\nnats: {listen: %q}\ncontroller: {listen: %q}\nagent: {listen: %q}\nretry: {max_attempts: 2, base: 10ms, max: 50ms, budget: 1}\nchannels:\n", f.nats, f.http, f.agent)
	routes := "routes:\n"
	for _, fault := range placeFaults() {
		for _, place := range placeNames {
			name := fault.class.String() + "-" + place
			text += fmt.Sprintf("  - {name: %s, provider: openai, base_url: %q, model: %s, api_key_env: WEIR_TEST_KEY, limits: {tpm: 1000000}}\n", name, up.URL+"/v1", name)
			routes += fmt.Sprintf("  - {name: %s, tiers: [[%s]]}\n", name, name)
		}
	}
	if err := os.WriteFile(filepath.Join(f.dir, "weir.yaml"), []byte(text+routes), 0o600); err != nil {
		t.Fatal(err)
	}
	f.startController()
	f.sidecar = start(t, f.dir, "agent", "--id", "sidecar")
	f.sidecar.said("connected to nats")
	return f, s
}

// placeCall is the call of a case.
func (f *fleet) placeCall(ctx context.Context, name, place string) *http.Request {
	f.t.Helper()
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"stream_options":{"include_usage":true},"max_tokens":40,"messages":[{"role":"user","content":"hello"}]}`, name, place == "first" || place == "mid" || place == "after")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.baseURL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Weir-Deadline-Ms", "8000")
	return req
}

// leave makes the call of a case and leaves it where it is stuck, once its
// client has got what it must; then the provider must hear of it.
func (f *fleet) leave(s *placeServer, name, place string) {
	f.t.Helper()
	ctx, leave := context.WithTimeout(f.t.Context(), patience)
	defer leave()
	must := map[string]string{"mid": placeText, "after": placeDone}[place]
	go func() {
		if <-s.stuck; must == "" {
			leave()
		}
	}()
	var got strings.Builder
	if resp, err := http.DefaultClient.Do(f.placeCall(ctx, name, place)); err == nil {
		for b := make([]byte, 512); err == nil && (must == "" || !strings.Contains(got.String(), must)); {
			var n int
			n, err = resp.Body.Read(b)
			got.Write(b[:n])
		}
		leave()
		_ = resp.Body.Close()
	}
	if !strings.Contains(got.String(), must) {
		f.t.Errorf("%s: got %q", name, got.String())
	}
	select {
	case <-s.left:
	case <-time.After(patience):
		f.t.Errorf("%s: the provider works on", name)
	}
}

// ask makes the call of a case and returns what its client got; seen hears of
// the answer's head.
func (f *fleet) ask(name, place string, seen chan<- struct{}) (status int, text string, err error) {
	f.t.Helper()
	resp, err := http.DefaultClient.Do(f.placeCall(f.t.Context(), name, place))
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if seen != nil {
		seen <- struct{}{}
	}
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

// told returns the reports in the fleet's log, read from its store.
func (f *fleet) told() (all []*model.Attempts) {
	f.t.Helper()
	path := f.dir + "/journal.weir"
	f.weir("log", "export", path, "--store", f.dir+"/weir-data", "--fleet", "test")
	file, err := os.Open(path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	j, err := journal.NewReader(file)
	if err != nil {
		f.t.Fatal(err)
	}
	for {
		e, err := j.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			f.t.Fatal(err)
		}
		fact, err := events.Decode(e.Data)
		if err != nil {
			f.t.Fatal(err)
		}
		if r, ok := fact.(*model.Attempts); ok {
			all = append(all, r)
		}
	}
}

// TestPlacesLive puts each kind of trouble at each place of an answer that a
// fleet of processes gets: the class is right, no more calls are made than the
// retries allow, the client is told as it must be, and every call is in the log
// once, with what it used; in the end nothing is in flight.
func TestPlacesLive(t *testing.T) {
	t.Parallel()
	f, s := newPlaces(t)
	for _, fault := range placeFaults() {
		for _, place := range placeNames {
			name := fault.class.String() + "-" + place
			if fault.class == model.ClassCanceled {
				f.leave(s, name, place)
				continue
			}
			var seen chan struct{}
			if place == "mid" {
				seen = s.seen
			}
			status, text, err := f.ask(name, place, seen)
			switch {
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case place == "after":
				if status != 200 || !strings.HasSuffix(text, placeDone) || strings.Contains(text, `"error"`) {
					t.Errorf("%s: %d %s", name, status, text)
				}
			case place == "mid":
				if status != 200 || !strings.Contains(text, placeText) || strings.Count(text, `"error":{`) != 1 {
					t.Errorf("%s: %d %s", name, status, text)
				}
			case status != fault.told || !strings.Contains(text, `"error":{`):
				t.Errorf("%s: %d %s, want %d", name, status, text, fault.told)
			}
		}
	}
	if got := f.sidecar.stop(); got.code != exitOK {
		t.Errorf("the sidecar ends with code %d", got.code)
	}
	if got := f.controller.stop(); got.code != exitOK {
		t.Errorf("the controller ends with code %d", got.code)
	}
	made := map[string][]model.Attempt{}
	reports := f.told()
	for _, r := range reports {
		for _, a := range r.Attempts {
			made[a.Route] = append(made[a.Route], a)
		}
	}
	for _, fault := range placeFaults() {
		for _, place := range placeNames {
			name := fault.class.String() + "-" + place
			wantPlace(t, fault, place, s.calls[name], made[name])
		}
	}
	last := reports[len(reports)-1]
	if !last.Leaving {
		t.Errorf("the last report is no goodbye: %+v", last)
	}
	for _, c := range last.Channels {
		if c.InFlight != 0 || c.Queued != 0 {
			t.Errorf("at the end %+v", c)
		}
	}
}

// wantPlace compares what the log has of one case with what must be.
func wantPlace(t *testing.T, f placeFault, place string, calls int, made []model.Attempt) {
	t.Helper()
	class, most := f.class, 1
	if place == "after" {
		class = model.ClassOK
	}
	if f.retried && place != "mid" && place != "after" {
		most = 2
	}
	if calls < 1 || calls > most || len(made) != calls {
		t.Errorf("%v %s: %d calls, %d in the log, at most %d are allowed", f.class, place, calls, len(made), most)
	}
	for i, a := range made {
		if a.Class != class || a.Rule == "" || a.Reserved == 0 || int(a.Try) != i+1 || a.Request != made[0].Request {
			t.Errorf("%v %s: attempt %d is %+v, want %v", f.class, place, i, a, class)
		}
		if class == model.ClassOK && (!a.UsageKnown || a.In != 9 || a.Out != 3) {
			t.Errorf("%v %s: settled with %+v", f.class, place, a)
		}
		if place == "mid" && (a.In == 0 || a.Out == 0) {
			t.Errorf("%v %s: what was sent is not counted: %+v", f.class, place, a)
		}
	}
}
