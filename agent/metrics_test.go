package agent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"weir/model"
)

// TestTimesOfRoutesThatAreGone renames a route with every push: the times of
// one that is no longer configured are dropped, those of others stay.
func TestTimesOfRoutesThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Fleet.Channels[1].Alone = 2 })
		defer b.close()
		cfg := *b.client.cfg.Fleet
		main := cfg.Routes[0]
		for n := range uint64(5) {
			renamed := main
			renamed.Name = fmt.Sprint("route-", n)
			cfg.Routes = []model.RouteConfig{main, renamed}
			if err := b.out.PutConfig(t.Context(), 2+n, &cfg); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for _, name := range []string{main.Name, renamed.Name, "of nobody's"} {
				p, err := b.client.Acquire(t.Context(), Request{Route: name})
				if err == nil {
					p.Done(ok())
				}
			}
		}
		var text strings.Builder
		b.set.WritePrometheus(&text)
		kept := 0
		for _, all := range b.client.meter.routes {
			for _, t := range all {
				if t != nil {
					kept++
				}
			}
		}
		if kept != 3 || strings.Contains(text.String(), `{route="route-3"`) {
			t.Errorf("%d routes and outcomes are kept:\n%s", kept, text.String())
		}
		for _, want := range []string{`_count{route="route",outcome="ok"} 5`, `_count{route="route-4",outcome="ok"} 1`} {
			if !strings.Contains(text.String(), "weir_request_seconds"+want) {
				t.Errorf("no %s in\n%s", want, text.String())
			}
		}
	})
}
