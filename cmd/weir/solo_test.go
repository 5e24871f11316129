package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// solo is a controller with its own NATS server and a sidecar.
type solo struct {
	t                   *testing.T
	dir, http, sidecar  string
	controller, process *process
}

// newSolo starts them in dir; what they store goes to dir/weir-data.
func newSolo(t *testing.T, dir, provider string) *solo {
	t.Helper()
	f := &solo{t: t, dir: dir, http: freeAddress(t), sidecar: freeAddress(t)}
	text := fmt.Sprintf(`
fleet: test
nats: {listen: %q, store: %q, credentials: %q}
controller: {listen: %q, store: %q}
agent: {listen: %q}
channels:
  - {name: main, base_url: "%s/v1", model: quick, limits: {concurrency: %d}}
routes:
  - {name: default, tiers: [[main]]}
`, freeAddress(t), filepath.Join(dir, "weir-data", "nats"), filepath.Join(dir, "credentials"), f.http, filepath.Join(dir, "weir-data", "state"), f.sidecar, provider, stationTakes)
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f.lead()
	f.process = start(t, dir, "agent", "--id", "sidecar")
	f.process.said("connected to nats")
	return f
}

// lead starts a controller.
func (f *solo) lead() {
	f.t.Helper()
	f.controller = start(f.t, f.dir, "controller")
	f.controller.said("msg=leading")
}

// status asks the controller.
func (f *solo) status() (s standing, ok bool) {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get("http://" + f.http + "/api/v1/status")
	if err != nil {
		return s, false
	}
	defer func() { _ = answer.Body.Close() }()
	return s, answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(&s) == nil
}

// counted waits until the controller has counted that many attempts, and none
// is lost.
func (f *solo) counted(attempts int64) {
	f.t.Helper()
	var s standing
	f.controller.until(fmt.Sprint("count ", attempts, " attempts"), func() bool {
		now, ok := f.status()
		if ok {
			s = now
		}
		return ok && s.Counters.Attempts >= attempts
	})
	if s.Counters.Attempts != attempts || s.Counters.Lost != 0 {
		f.t.Errorf("%+v, want %d attempts, none lost", s, attempts)
	}
}

// calls are callers at the sidecar.
func (f *solo) calls(n int) *callers {
	one := &trio{t: f.t, sidecars: [2]string{f.sidecar, f.sidecar}}
	return one.call(n)
}
