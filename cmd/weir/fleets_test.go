package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/events/natslog/natstest"
)

// account is a fleet of its own on a NATS server that others use too: a
// controller and a sidecar.
type account struct {
	name, dir, http, sidecar string
	controller               *process
	main, spare              *station
}

// newAccount starts a fleet. What it sends through main and spare its sidecar
// knows from the beginning; the controller has what is given.
func newAccount(t *testing.T, name, nats string, main, spare *station, given ...string) *account {
	t.Helper()
	a := &account{name: name, dir: t.TempDir(), http: freeAddress(t), sidecar: freeAddress(t), main: main, spare: spare}
	a.write(t, "weir.yaml", nats, given...)
	a.controller = start(t, a.dir, "controller", "--id", name, "--listen", a.http, "--store", "store")
	a.controller.said("msg=leading")
	a.controller.said("controller runs")
	a.write(t, "sidecar.yaml", nats, "main", "spare")
	start(t, a.dir, "agent", "-c", "sidecar.yaml", "--id", "sidecar", "--listen", a.sidecar).said("connected to nats")
	return a
}

// write writes a file with some of the channels.
func (a *account) write(t *testing.T, file, nats string, given ...string) {
	t.Helper()
	text := fmt.Sprintf("fleet: %s\nnats: {url: %q}\nchannels:\n", a.name, nats)
	for _, channel := range given {
		s := a.main
		if channel == "spare" {
			s = a.spare
		}
		text += fmt.Sprintf("  - {name: %s, base_url: \"%s/v1\", model: quick, limits: {concurrency: %d}}\n", channel, s.URL, stationTakes)
	}
	text += fmt.Sprintf("routes:\n  - {name: default, tiers: [[%s]]}\n", strings.Join(given, ", "))
	if err := os.WriteFile(filepath.Join(a.dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// order runs an operator's command at the fleet's controller.
func (a *account) order(t *testing.T, args ...string) {
	t.Helper()
	if got := weir(t, "", append(args, "--url", "http://"+a.http)...); got.code != exitOK {
		t.Fatalf("%s: %v: exit code %d: %s", a.name, args, got.code, got.stderr)
	}
}

// TestChannelMovesToAnotherFleet has two fleets on one NATS server, both of
// them calling, and moves a channel from one to the other as OPERATING.md says:
// no call fails, at no time has the channel more calls than it takes, and each
// fleet counts its own attempts once.
func TestChannelMovesToAnotherFleet(t *testing.T) {
	t.Parallel()
	bus := natstest.Start(t, natstest.Listen)
	main, eastSpare, westSpare := newStation(t), newStation(t), newStation(t)
	east := newAccount(t, "east", bus.URL(), main, eastSpare, "main", "spare")
	west := newAccount(t, "west", bus.URL(), main, westSpare, "spare")
	calls := [2]*callers{}
	for i, a := range []*account{east, west} {
		calls[i] = (&trio{sidecars: [2]string{a.sidecar, a.sidecar}}).call(30)
	}
	await := func(what string, true func() bool) {
		t.Helper()
		east.controller.until(what, true)
	}
	await("use the channel", func() bool { return main.served.Load() > 30 })

	east.order(t, "channel", "set", "main", "--limit", "0", "--wait", "1m", "--why", "moves to west")
	if n := main.now.Load(); n > 0 {
		t.Errorf("%d calls are in flight on a channel that is out of use", n)
	}
	before := main.served.Load()
	east.write(t, "weir.yaml", bus.URL(), "spare")
	east.order(t, "config", "push", filepath.Join(east.dir, "weir.yaml"))
	west.write(t, "weir.yaml", bus.URL(), "main", "spare")
	west.order(t, "config", "push", filepath.Join(west.dir, "weir.yaml"))
	await("use the channel in the other fleet", func() bool { return main.served.Load() > before+30 })

	for _, c := range calls {
		c.end(t)
	}
	if most := main.most.Load(); most > stationTakes {
		t.Errorf("%d calls at once on the channel, it takes %d", most, stationTakes)
	}
	for a, want := range map[*account]int64{east: before + eastSpare.served.Load(), west: main.served.Load() - before + westSpare.served.Load()} {
		var s standing
		await(fmt.Sprint(a.name, " counts ", want, " attempts"), func() bool {
			s, _ = standingOf(a.http)
			return s.Counters.Attempts >= want
		})
		time.Sleep(200 * time.Millisecond) // what comes twice comes now
		if s, _ = standingOf(a.http); s.Counters.Attempts != want || s.Counters.Lost != 0 || len(s.Faults) > 0 {
			t.Errorf("%s counted %+v, want %d attempts", a.name, s, want)
		}
	}
}
