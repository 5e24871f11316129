package main

import (
	"fmt"
	"log/slog"
	"time"

	"weir/cmd/weir/emulator"
)

// providerCommand is weir provider.
type providerCommand struct {
	Incident string        `arg:"" placeholder:"INCIDENT" help:"A built-in incident's name (weir sim list) or a file."`
	Listen   string        `default:"127.0.0.1:9000" placeholder:"HOST:PORT" help:"Address to serve on."`
	Compress time.Duration `placeholder:"TIME" help:"Play the script in this time instead of its own."`
	Seed     uint64        `default:"1" help:"Decides every draw."`
	Provider string        `placeholder:"NAME" help:"Which of the incident's providers; the first if none is named."`
}

// Help is shown by --help.
func (*providerCommand) Help() string {
	return `The provider has the incident's hidden limits, slowdown and refusals, and its script begins when it starts. It serves POST /v1/chat/completions (whole and streamed), POST /v1/embeddings and GET /v1/models; GET /emulator/books shows its books, POST /emulator/reset begins anew.

Examples:

  weir provider 2064-cascade
  weir provider 2064-cascade --listen 127.0.0.1:9000 --compress 60s --seed 7
  weir provider ./my-incident.yaml`
}

// Run serves until it is stopped.
func (c *providerCommand) Run(e *env) error {
	inc, err := findIncident(c.Incident)
	if err != nil {
		return err
	}
	if inc, err = compress(inc, c.Compress); err != nil {
		return err
	}
	if c.Provider != "" && inc.ProviderByName(c.Provider) == nil {
		return badInput(fmt.Errorf("--provider=%s: incident %s has no such provider", c.Provider, inc.Name))
	}
	l, err := listen(c.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // closed by its server, if that came to be
	if !loopback(l.Addr().String()) {
		e.log.Warn("anybody who reaches this address may call, read the books and reset", slog.String("address", l.Addr().String()))
	}
	s, err := emulator.New(emulator.Config{Incident: inc, Provider: c.Provider, Seed: c.Seed})
	if err != nil {
		return err
	}
	defer s.Close()
	e.log.Info("provider runs", slog.String("incident", inc.Name), slog.String("http", "http://"+l.Addr().String()+"/v1"),
		slog.Duration("script", inc.Duration), slog.Uint64("seed", c.Seed))
	return serve(e.ctx, l, s, time.Second, e.log)
}
