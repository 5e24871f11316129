package main

import (
	"cmp"
	"fmt"

	"weir/cmd/weir/config"
	"weir/events"
)

// configCommand is weir config.
type configCommand struct {
	Check checkConfigCommand `cmd:"" help:"Say everything that is wrong with a file."`
	Push  pushConfigCommand  `cmd:"" help:"Put a file's channels, groups, routes and tenants in force."`
}

// fileArg names a weir.yaml.
type fileArg struct {
	File string `arg:"" optional:"" placeholder:"FILE" help:"Configuration file; ./weir.yaml if none is named."`
}

// need reads the file, which must have a channel.
func (f fileArg) need() (*config.File, error) { return configFlag{f.File}.need() }

// checkConfigCommand is weir config check.
type checkConfigCommand struct{ fileArg }

// Help is shown by --help.
func (*checkConfigCommand) Help() string {
	return `Prints each fault with file, line and column, all at once. The smallest useful file is

  channels:
    - name: main
      provider: openai
      base_url: https://provider.example/v1
      model: gpt-5
      api_key_env: PROVIDER_KEY
      limits: {rpm: 60, tpm: 100000}
  routes:
    - {name: gpt-5, tiers: [[main]]}

Examples:

  weir config check weir.yaml`
}

// Run checks.
func (c *checkConfigCommand) Run(e *env) error {
	f, err := c.need()
	if err != nil {
		return err
	}
	m := &f.Model
	fmt.Fprintf(e.stdout, "%s is good: fleet %s, %d channels, %d groups, %d routes, %d tenants\n",
		cmp.Or(c.File, defaultConfig), m.Fleet, len(m.Channels), len(m.Groups), len(m.Routes), len(m.Tenants))
	return nil
}

// pushConfigCommand is weir config push.
type pushConfigCommand struct {
	apiFlags
	fileArg
	Why string `placeholder:"TEXT" help:"The reason, for the log."`
	By  string `placeholder:"NAME" help:"Who pushes it, for the log; the user's name if none is given."`
}

// Help is shown by --help.
func (*pushConfigCommand) Help() string {
	return `Neither addresses nor names of secrets leave the file: what an agent sends where, it takes from its own.

Examples:

  weir config push weir.yaml
  weir config push weir.yaml --why "the spare is back"
  weir config push weir.yaml --url http://10.0.0.5:8080`
}

// Run checks and pushes.
func (c *pushConfigCommand) Run(e *env) error {
	f, err := c.need()
	if err != nil {
		return err
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	f.Model.By, f.Model.Why = cmp.Or(c.By, whoAmI()), c.Why
	var taken struct {
		Seq uint64 `json:"seq"`
	}
	if err := a.order(e.ctx, "/api/v1/config", "application/octet-stream", events.Encode(nil, &f.Model), &taken); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "configuration of %s is in force since record %d\n", cmp.Or(c.File, defaultConfig), taken.Seq)
	return nil
}
