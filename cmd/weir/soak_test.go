package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/events/natslog/natstest"
)

// TestLeaderHangs stops the leader as a debugger or an overloaded machine does:
// a standby leads meanwhile, and when the old one goes on it does not speak.
func TestLeaderHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for elections of servers, for the most part")
	}
	t.Parallel()
	bus, provider := natstest.Start(t, natstest.Listen), newStation(t)
	f := newTrio(t, bus.URL(), provider.URL)
	old := f.led(-1)
	calls := f.call(30)
	time.Sleep(2 * time.Second)
	f.controllers[old].signal(t, syscall.SIGSTOP)
	now := f.led(old)
	time.Sleep(time.Second)
	f.controllers[old].signal(t, syscall.SIGCONT)
	time.Sleep(3 * time.Second)
	calls.end(t)
	if leader := f.leader(); leader != now {
		t.Errorf("controller %d leads, want %d still", leader, now)
	}
	if most := provider.most.Load(); most > stationTakes {
		t.Errorf("%d calls at once at the provider, it takes %d", most, stationTakes)
	}
	f.wantCounted(provider.served.Load())
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// soakEvery is the time between two faults, soakHeal how long each lasts.
const (
	soakEvery = 10 * time.Second
	soakHeal  = 4 * time.Second
)

// TestSoak runs a fleet for the time in WEIR_SOAK under random faults, half of
// it at one and a half times what the provider takes. No call fails, the
// provider never has more at once than it was said to take, and at the end no
// process holds more memory, goroutines or files than it did when it was warm.
func TestSoak(t *testing.T) {
	text := os.Getenv("WEIR_SOAK")
	if text == "" {
		t.Skip("WEIR_SOAK names no time, such as 1h")
	}
	span, err := time.ParseDuration(text)
	if err != nil || span < time.Minute {
		t.Fatalf("WEIR_SOAK=%q: want at least 1m", text)
	}
	bus, provider := natstest.Start(t, natstest.Listen), newStation(t)
	f := newTrio(t, bus.URL(), provider.URL)
	f.led(-1)
	usual, crowd := f.call(stationTakes*2/3), (*callers)(nil)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	begin := time.Now()
	var warm map[string]holding
	faults := map[string]int{}
	for n := 0; time.Since(begin) < span; n++ {
		if crowd == nil && time.Since(begin) > span/2 {
			crowd = f.call(stationTakes - stationTakes*2/3 + stationTakes/2)
		}
		name := f.fault(bus, rng)
		faults[name]++
		time.Sleep(soakEvery)
		if warm == nil && time.Since(begin) > min(span/4, 10*time.Minute) {
			warm = f.usage()
		}
		t.Logf("%s: %s; %d calls", time.Since(begin).Round(time.Second), name, provider.served.Load())
	}
	f.led(-1)
	usual.end(t)
	crowd.end(t)
	if most := provider.most.Load(); most > stationTakes {
		t.Errorf("%d calls at once at the provider, it takes %d", most, stationTakes)
	}
	f.wantCounted(provider.served.Load())
	time.Sleep(5 * time.Second) // what was in flight is over
	for name, after := range f.usage() {
		t.Logf("%s: warm %+v, at the end %+v", name, warm[name], after)
		if after.memory == 0 || after.goroutines == 0 || after.files == 0 {
			t.Errorf("%s does not tell what it holds", name)
		}
		if before, ok := warm[name]; ok && after.beyond(before) {
			t.Errorf("%s holds more at the end (%+v) than when it was warm (%+v)", name, after, before)
		}
	}
	t.Logf("faults: %v", faults)
}

// fault does one thing that goes wrong, and mends it.
func (f *trio) fault(bus *natstest.Server, rng *rand.Rand) string {
	f.t.Helper()
	switch rng.IntN(4) {
	case 0:
		leader := f.led(-1)
		f.controllers[leader].kill()
		time.Sleep(soakHeal)
		f.controller(leader)
		return "leader killed"
	case 1:
		leader := f.led(-1)
		f.controllers[leader].signal(f.t, syscall.SIGSTOP)
		time.Sleep(soakHeal)
		f.controllers[leader].signal(f.t, syscall.SIGCONT)
		return "leader hung"
	case 2:
		bus.Stop()
		time.Sleep(soakHeal)
		bus.Restart(f.t)
		return "nats restarted"
	default:
		leader := f.led(-1)
		f.controllers[leader].stop()
		f.controller(leader)
		return "leader restarted"
	}
}

// usage is what a process holds.
type holding struct{ memory, goroutines, files int64 }

// beyond reports whether it is more than noise above an earlier use: garbage
// that is not collected yet is a part of memory.
func (u holding) beyond(before holding) bool {
	return u.memory > before.memory*3/2+(32<<20) || u.goroutines > before.goroutines+50 || u.files > before.files+20
}

// usage reads what every process that has run since the beginning holds.
func (f *trio) usage() map[string]holding {
	f.t.Helper()
	all := map[string]holding{}
	for i, p := range f.agents {
		all[fmt.Sprint("sidecar ", i)] = usageOf(f.t, f.sidecars[i], p)
	}
	for i, p := range f.controllers {
		all[fmt.Sprint("controller ", i)] = usageOf(f.t, f.http[i], p)
	}
	return all
}

// usageOf reads a process's metrics and counts its files.
func usageOf(t *testing.T, address string, p *process) (u holding) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	u.files = int64(len(files))
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "process_resident_memory_anon_bytes":
			u.memory = int64(n)
		case "go_goroutines":
			u.goroutines = int64(n)
		}
	}
	return u
}
