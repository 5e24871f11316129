package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// asNATS makes the test binary be a NATS server with its store in that folder,
// on the addresses in natsAddresses: so what it costs is not mixed with what the
// test does.
const (
	asNATS        = "WEIR_TEST_AS_NATS"
	natsAddresses = "WEIR_TEST_NATS_ADDRESSES" // HOST:PORT for clients, HOST:PORT to look at it
)

func serveNATS(dir string) {
	client, look, _ := strings.Cut(os.Getenv(natsAddresses), ",")
	o := &server.Options{JetStream: true, StoreDir: dir, NoLog: true, SyncInterval: time.Second}
	for address, to := range map[string]*int{client: &o.Port, look: &o.HTTPPort} {
		_, port, _ := strings.Cut(address, ":")
		*to, _ = strconv.Atoi(port) // it is one
	}
	o.Host, o.HTTPHost = "127.0.0.1", "127.0.0.1"
	s, err := server.NewServer(o)
	if err != nil {
		panic(err)
	}
	s.Start()
	select {}
}

// reading is what has been used up to now.
type reading struct {
	at                                 time.Time
	inMsgs, inBytes, outMsgs, outBytes int64
	disk                               int64
	calls                              int64
	processor                          map[string]time.Duration // of each kind of process
}

// TestCosts measures what a fleet costs at rest and while each sidecar makes
// twenty calls a second: messages and bytes at the NATS server for each agent,
// the time of a processor and the memory of each part. It prints what
// OPERATING.md says.
func TestCosts(t *testing.T) {
	if os.Getenv("WEIR_LONG") != "1" {
		t.Skip("takes a minute; WEIR_LONG=1 runs it")
	}
	const sidecars, each, span = 10, 20, 15 * time.Second
	dir, client, look := t.TempDir(), freeAddress(t), freeAddress(t)
	t.Setenv(asNATS, filepath.Join(dir, "nats"))
	t.Setenv(natsAddresses, client+","+look)
	bus := start(t, dir, "nats")
	t.Setenv(asNATS, "")
	bus.until("listen", func() bool { _, err := http.Get("http://" + look + "/healthz"); return err == nil })
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(200 * time.Millisecond)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"yes"}}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`)
	}))
	defer provider.Close()
	f := &trio{t: t, dir: dir, nats: "nats://" + client}
	f.write(provider.URL, 200)
	parts := map[string][]*process{"nats": {bus}}
	for i, part := range []string{"leader", "standby"} {
		f.http[i] = freeAddress(t)
		f.controller(i)
		if i == 0 {
			f.led(-1)
		}
		parts[part] = []*process{f.controllers[i]}
	}
	var addresses []string
	for i := range sidecars {
		address := freeAddress(t)
		p := f.start("agent", "--id", fmt.Sprint("sidecar-", i), "--listen", address)
		p.said("connected to nats")
		addresses, parts["sidecar"] = append(addresses, address), append(parts["sidecar"], p)
	}
	c := &callers{}
	take := func() reading { return measure(t, look, filepath.Join(dir, "nats"), c.done.Load(), parts) }
	time.Sleep(5 * time.Second)
	from := take()
	time.Sleep(span)
	from.report(t, "at rest", take(), sidecars)

	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, address := range addresses {
		all.Go(func() {
			tick := time.NewTicker(time.Second / each)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					all.Go(func() { c.one("http://" + address + "/v1/chat/completions") })
				}
			}
		})
	}
	time.Sleep(10 * time.Second) // the window opens
	from = take()
	time.Sleep(span)
	from.report(t, fmt.Sprintf("with %d calls a second each", each), take(), sidecars)
	close(stop)
	all.Wait()
	for _, text := range c.troubles {
		t.Errorf("a call failed: %s", text)
	}
	for part, list := range parts {
		t.Logf("%s holds %d MiB", part, resident(t, list[0])>>20)
	}
}

// measure reads what is used by now.
func measure(t *testing.T, look, store string, calls int64, parts map[string][]*process) reading {
	t.Helper()
	r := reading{at: time.Now(), calls: calls, processor: map[string]time.Duration{}}
	var v struct {
		InMsgs   int64 `json:"in_msgs"`
		InBytes  int64 `json:"in_bytes"`
		OutMsgs  int64 `json:"out_msgs"`
		OutBytes int64 `json:"out_bytes"`
	}
	resp, err := http.Get("http://" + look + "/varz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	r.inMsgs, r.inBytes, r.outMsgs, r.outBytes = v.InMsgs, v.InBytes, v.OutMsgs, v.OutBytes
	blocks, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "WEIR_test_LOG", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		if info, err := os.Stat(block); err == nil {
			r.disk += info.Size()
		}
	}
	for part, list := range parts {
		for _, p := range list {
			r.processor[part] += processor(t, p)
		}
	}
	return r
}

// report prints what was used between two readings.
func (r reading) report(t *testing.T, when string, now reading, agents int64) {
	t.Helper()
	seconds := now.at.Sub(r.at).Seconds()
	rate := func(from, to int64) float64 { return float64(to-from) / seconds / float64(agents) }
	t.Logf("%s, for each agent a second: %.1f messages and %.0f bytes into nats, %.1f and %.0f out of it, %.0f bytes of log on disk; %.1f calls", when,
		rate(r.inMsgs, now.inMsgs), rate(r.inBytes, now.inBytes), rate(r.outMsgs, now.outMsgs), rate(r.outBytes, now.outBytes), rate(r.disk, now.disk), rate(r.calls, now.calls))
	for part, used := range now.processor {
		t.Logf("%s: %s takes %.1f %% of a processor", when, part, 100*(used-r.processor[part]).Seconds()/seconds)
	}
}

// processor is how long a process has used one.
func processor(t *testing.T, p *process) time.Duration {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
	if err != nil {
		t.Skip("this system does not tell what a process uses")
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // a hundred ticks a second on every Linux
}

// resident is the memory a process holds, in bytes.
func resident(t *testing.T, p *process) int64 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "statm"))
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
