package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"weir/cmd/weir/demo"
)

// demoCommand is weir demo.
type demoCommand struct {
	For   time.Duration `default:"60s" placeholder:"TIME" help:"Time of both phases together, at least 20s."`
	NoWeb bool          `help:"Serve no pages meanwhile."`
	Out   string        `default:"demo-out" placeholder:"DIR" help:"Where report, picture, journal and summary are left."`
	Seed  uint64        `default:"1" help:"Decides requests and luck, the same in both phases."`
	JSON  bool          `name:"json" help:"Print the result as one JSON object."`
}

// Help is shown by --help.
func (*demoCommand) Help() string {
	return `An emulated provider, NATS, the controller and four sidecars run on free ports of this machine. The 2064 incident is played twice, first straight to the provider, then through Weir.

Examples:

  weir demo
  weir demo --for 30s --no-web --out /tmp/demo --json`
}

// Run runs the demo.
func (c *demoCommand) Run(e *env) error {
	if c.For < 20*time.Second {
		return badInput(fmt.Errorf("--for=%s: want at least 20s", c.For))
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return badInput(fmt.Errorf("--out=%s: %w", c.Out, err))
	}
	_, err := demo.Run(e.ctx, demo.Options{
		For: c.For, Dir: c.Out, Seed: c.Seed, NoWeb: c.NoWeb, JSON: c.JSON,
		Version: version(), Stdout: e.stdout, Stderr: e.stderr,
	})
	if e.ctx.Err() != nil {
		return errors.New("the demo was stopped before its end")
	}
	return err
}
