package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"weir/cmd/weir/load"
)

// loadCommand is weir load.
type loadCommand struct {
	Incident string        `arg:"" placeholder:"INCIDENT" help:"A built-in incident's name (weir sim list) or a file."`
	Target   []string      `required:"" placeholder:"URL" help:"Base URL to call, with or without /v1. Agent i calls the i-th; fewer are shared in turn."`
	Agents   int           `placeholder:"N" help:"Number of applications' hosts; the incident's if none is named."`
	For      time.Duration `placeholder:"TIME" help:"Stop after this time; the incident's duration if none is named."`
	Compress time.Duration `placeholder:"TIME" help:"Play the script in this time instead of its own."`
	Traces   string        `placeholder:"DIR" help:"Folder of the trace files that the incident names; the incident's own if none is named."`
	Seed     uint64        `default:"1" help:"Decides arrivals and sizes."`
	KeyEnv   string        `placeholder:"VARIABLE" help:"Environment variable with the key to show as a bearer token."`
	Stream   bool          `help:"Ask for streamed answers."`
	JSON     bool          `name:"json" help:"Print the result as one JSON object."`
}

// Help is shown by --help.
func (*loadCommand) Help() string {
	return `Each application has the incident's pool, timeout, deadline and habit of repeating. Prompts are a few words: what a call stands for travels in max_tokens and in headers that the emulated provider reads.

Examples:

  weir load 2064-cascade --target http://127.0.0.1:8787
  weir load 2064-cascade --target http://127.0.0.1:8787 --target http://127.0.0.1:8788 --agents 2 --compress 60s
  weir load ./my-incident.yaml --target http://127.0.0.1:9000/v1 --for 30s --json`
}

// Run sends the load until its end.
func (c *loadCommand) Run(e *env) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	o.Stdout, o.Stderr, o.JSON = e.stdout, e.stderr, c.JSON
	result, err := load.Run(e.ctx, o)
	switch {
	case e.ctx.Err() != nil:
		return errors.New("the load was stopped before its end")
	case err != nil:
		return badInput(err) // of the options: the run itself does not fail
	case result.Completed == 0 && result.Offered > 0:
		return fmt.Errorf("none of %d requests was completed", result.Offered)
	}
	return nil
}

func (c *loadCommand) options() (o load.Options, err error) {
	if c.Agents < 0 || c.Agents > 10_000 {
		return o, badInput(fmt.Errorf("--agents=%d: want 1 to 10000", c.Agents))
	}
	if c.For < 0 {
		return o, badInput(fmt.Errorf("--for=%s: want a time above 0", c.For))
	}
	inc, err := findIncident(c.Incident)
	if err != nil {
		return o, err
	}
	o.Traces, err = readTraces(inc, traceFolder(c.Traces, c.Incident))
	if err != nil {
		return o, err
	}
	if c.KeyEnv != "" {
		if o.Key = os.Getenv(c.KeyEnv); o.Key == "" {
			return o, badInput(fmt.Errorf("--key-env=%s: the variable is empty", c.KeyEnv))
		}
	}
	o.Incident, err = compress(inc, c.Compress)
	o.Targets, o.Agents, o.For, o.Seed, o.Stream = c.Target, c.Agents, c.For, c.Seed, c.Stream
	return o, err
}
