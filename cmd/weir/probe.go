package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"weir/cmd/weir/probe"
)

// probeCommand is weir probe.
type probeCommand struct {
	URL         string    `arg:"" placeholder:"URL" help:"The provider's URL up to and including its version, as base_url has it."`
	Model       string    `required:"" placeholder:"NAME" help:"The model, as the provider calls it."`
	API         probe.API `name:"api" default:"openai" enum:"openai,anthropic" placeholder:"API" help:"Shape of the calls: openai (chat/completions) or anthropic (messages)."`
	KeyEnv      string    `placeholder:"VARIABLE" help:"Environment variable that holds the key; none is sent if none is named."`
	Provider    string    `placeholder:"NAME" help:"Rule set that judges the answers; the API's if none is named."`
	Channel     string    `placeholder:"NAME" help:"Name of the channel in the fragment; the model's if none is given."`
	Only        []string  `placeholder:"LIMIT" help:"Look for these limits only: concurrency, requests, tokens."`
	MaxRequests int64     `default:"1200" placeholder:"N" help:"Most calls."`
	MaxTokens   int64     `default:"200000" placeholder:"N" help:"Most tokens, in and out."`
	MaxRefusals int64     `default:"30" placeholder:"N" help:"Most refused calls."`
	MaxSeconds  int64     `default:"600" placeholder:"N" help:"Most seconds."`
	MaxInFlight int64     `default:"64" placeholder:"N" help:"Most calls at once."`
	Output      string    `short:"o" placeholder:"FILE" help:"Write the fragment of weir.yaml here; standard output if none is named."`
	JSON        bool      `name:"json" help:"Print what was found as one JSON object."`
}

// Help is shown by --help.
func (*probeCommand) Help() string {
	return `Looks for the most calls at once, requests a minute and tokens a minute that the provider lets through: in rising steps, each until it refuses and then for a minute at what was let through. What answers tell in their headers is not tried out. First it says what that may cost at most. Then it draws how much was let through, proposes three quarters of it, and writes that as a part of weir.yaml. What did not refuse within the bounds is named as not found and left out.

Calls of others on the same account lower what is found. The calls are small and real: they are paid for.

Examples:

  weir probe https://provider.example/v1 --model gpt-5 --key-env PROVIDER_KEY
  weir probe https://provider.example/v1 --model claude --api anthropic --key-env ANTHROPIC_KEY -o found.yaml
  weir probe http://127.0.0.1:9000/v1 --model m2.7 --only concurrency --max-in-flight 300 --json`
}

// Run probes and shows.
func (c *probeCommand) Run(e *env) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "this costs %s; only refusals end it earlier\n", o.Cost())
	progress := newBar(e.stderr, "calls", c.MaxRequests)
	o.Progress = func(s probe.Spent) { progress.set(s.Requests, c.MaxRequests) }
	out, err := probe.Run(e.ctx, o)
	progress.close()
	if e.ctx.Err() != nil {
		return errors.New("the probe was stopped before its end")
	}
	if err != nil {
		return err
	}
	return c.show(e, &out)
}

// options checks the flags.
func (c *probeCommand) options() (probe.Options, error) {
	o := probe.Options{
		Target: probe.Target{URL: c.URL, API: c.API, Model: c.Model, Provider: c.Provider},
		Bounds: probe.Bounds{
			Requests: c.MaxRequests, Tokens: c.MaxTokens, Refusals: c.MaxRefusals,
			Time: time.Duration(c.MaxSeconds) * time.Second, InFlight: c.MaxInFlight,
		},
		Dimensions: c.Only,
	}
	for _, bound := range []struct {
		name string
		v    int64
	}{
		{"max-requests", c.MaxRequests},
		{"max-tokens", c.MaxTokens},
		{"max-refusals", c.MaxRefusals},
		{"max-seconds", c.MaxSeconds},
		{"max-in-flight", c.MaxInFlight},
	} {
		if bound.v < 1 || bound.v > 1_000_000_000 {
			return o, badInput(fmt.Errorf("--%s=%d: want 1 to 1000000000", bound.name, bound.v))
		}
	}
	for _, name := range c.Only {
		if !slices.Contains(probe.Dimensions(), name) {
			return o, badInput(fmt.Errorf("--only=%s: want concurrency, requests or tokens", name))
		}
	}
	if len(c.Only) == 0 {
		o.Dimensions = probe.Dimensions()
	}
	if c.KeyEnv != "" {
		if o.Key = os.Getenv(c.KeyEnv); o.Key == "" {
			return o, badInput(fmt.Errorf("--key-env=%s: the environment variable is empty", c.KeyEnv))
		}
	}
	return o, badInput(o.Check())
}

// show prints what was found, and writes the fragment.
func (c *probeCommand) show(e *env, out *probe.Outcome) error {
	channel := cmp.Or(c.Channel, probe.ChannelName(c.Model))
	fragment := out.Fragment(channel, cmp.Or(c.Provider, string(c.API)), c.KeyEnv)
	if c.Output != "" {
		if err := os.WriteFile(c.Output, []byte(fragment), 0o644); err != nil {
			return badInput(err)
		}
	}
	if c.JSON {
		return json.NewEncoder(e.stdout).Encode(struct {
			*probe.Outcome
			Fragment string `json:"fragment"`
		}{out, fragment})
	}
	out.Show(e.stdout)
	if c.Output != "" {
		_, err := fmt.Fprintf(e.stdout, "\nwrote %s\n", c.Output)
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "\n%s", fragment)
	return err
}
