package page_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"weir/cmd/weir/load"
	"weir/cmd/weir/pagetest"
	"weir/cmd/weir/rig"
	"weir/sim/incident"
)

// TestPictures plays the 2064 incident live in a minute and a half, and takes
// the pictures of the guides meanwhile: WEIR_PICTURES says into which folder.
func TestPictures(t *testing.T) {
	folder := os.Getenv("WEIR_PICTURES")
	if folder == "" || testing.Short() {
		t.Skip("takes two minutes and writes files: task pictures")
	}
	inc, err := incident.Builtin("2064-cascade")
	if err != nil {
		t.Fatal(err)
	}
	inc = inc.Compress(90 * time.Second)
	p, err := rig.StartProviders(inc, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	s, err := rig.Start(t.Context(), rig.Options{Dir: t.TempDir(), Config: inc.Told("content"), Agents: inc.Fleet.MaxAgents(), Upstreams: p.Upstreams(), Version: "test", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	url, err := s.Web(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	played := make(chan error, 1)
	go func() {
		p.Reset()
		_, err := load.Run(ctx, load.Options{Incident: inc, Seed: 1, Targets: s.Sidecars, Wanted: p.Demand})
		played <- err
	}()
	for _, v := range pagetest.Look(t, map[string]string{"URL": url, "TOKEN": token, "PROVIDER": "", "PICTURES": folder}, "walk") {
		if v.Fault != "" {
			t.Error(v.Fault)
		}
	}
	cancel()
	if err := <-played; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
