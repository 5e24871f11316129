package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"

	"weir/cmd/weir/config"
	"weir/model"
)

// paramsCommand is weir params.
type paramsCommand struct {
	Show    showParamsCommand `cmd:"" help:"Print the parameters in force."`
	Diff    diffParamsCommand `cmd:"" help:"Show what a push would change."`
	Push    pushParamsCommand `cmd:"" help:"Put the parameters of a file in force."`
	History historyCommand    `cmd:"" help:"List the sets that were in force, by whom and why."`
}

// paramSet is a parameter set as the controller's API says it, and as
// config.ParseParams reads it.
type paramSet struct {
	Seq    uint64           `json:"seq,omitempty"`
	Name   string           `json:"name"`
	By     string           `json:"by"`
	Why    string           `json:"why"`
	Hash   string           `json:"hash,omitempty"`
	Params map[string]int64 `json:"params"`
	// Watched is how the newest push is watched.
	Watched *watchedSet `json:"watched,omitempty"`
	// Canary and Guard go with a push.
	Canary string     `json:"canary,omitempty"`
	Guard  *pushGuard `json:"guard,omitempty"`
}

// showParamsCommand is weir params show.
type showParamsCommand struct {
	apiFlags
	Default bool `help:"Print the defaults of this version and ask nobody."`
}

// Help is shown by --help.
func (*showParamsCommand) Help() string {
	return `Prints one JSON object, which push takes back.

Examples:

  weir params show
  weir params show >params.json
  weir params show --default`
}

// Run asks and prints.
func (c *showParamsCommand) Run(e *env) error {
	set := paramSet{Name: "default", Params: map[string]int64{}}
	if c.Default {
		p := model.DefaultParams()
		set.Hash = p.Hash()
		for _, spec := range model.ParamSpecs() {
			set.Params[spec.Name] = spec.Default
		}
	} else {
		a, err := c.api()
		if err != nil {
			return err
		}
		if err := a.get(e.ctx, "/api/v1/params", &set); err != nil {
			return err
		}
	}
	enc := json.NewEncoder(e.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(set)
}

// pushParamsCommand is weir params push.
type pushParamsCommand struct {
	apiFlags
	File string `arg:"" placeholder:"FILE" help:"Parameters as YAML or JSON; those it does not name stay as they are."`
	Name string `placeholder:"NAME" help:"Name of the set; the file's if none is given."`
	guardFlags
	Why string `placeholder:"TEXT" help:"The reason, for the log; the file's if none is given."`
	By  string `placeholder:"NAME" help:"Who pushes it, for the log; the user's name if none is given."`
}

// Help is shown by --help.
func (*pushParamsCommand) Help() string {
	return `The file has name, why and params; a parameter in nanoseconds may be a duration. The set becomes an event of the log.

With --guard, --for or --canary the controller watches it: answers for the same demand, and the share of attempts that bring none, against the same time before, or for a canary against the other channels. It takes the set back at once when one of them is surely worse than is tolerated, or at the end when it is worse, or when fewer than 100 attempts leave nothing to judge by. A canary that passes is then in force for all channels. A later push ends the watch.

Examples:

  weir params push tuned.yaml
  weir params push tuned.yaml --guard goodput=-2%,waste=+1% --for 10m
  weir params push tuned.yaml --canary spare --for 20m --wait
  echo 'params: {plateau: 12s}' >p.yaml && weir params push p.yaml --name calmer --why "flapped yesterday"`
}

// Run reads the file and pushes it.
func (c *pushParamsCommand) Run(e *env) error {
	p, err := read(c.File, config.ParseParams)
	if err != nil {
		return err
	}
	guard, err := c.guard()
	if err != nil {
		return err
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	set := paramSet{Canary: c.Canary, Guard: guard, Name: cmp.Or(c.Name, p.Name, filepath.Base(c.File)), By: cmp.Or(c.By, whoAmI()), Why: cmp.Or(c.Why, p.Why), Params: p.Values}
	var taken struct {
		Seq uint64 `json:"seq"`
	}
	if err := a.post(e.ctx, "/api/v1/params", set, &taken); err != nil {
		return err
	}
	if guard == nil {
		fmt.Fprintf(e.stdout, "params %s is in force since record %d\n", set.Name, taken.Seq)
		return nil
	}
	fmt.Fprintf(e.stdout, "params %s is watched for %s since record %d\n", set.Name, c.For, taken.Seq)
	if !c.Wait {
		return nil
	}
	return awaitVerdict(e, a, taken.Seq)
}
