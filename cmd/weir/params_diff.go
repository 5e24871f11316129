package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"

	"weir/cmd/weir/config"
	"weir/cmd/weir/story"
	"weir/controller"
	"weir/model"
)

// diffParamsCommand is weir params diff.
type diffParamsCommand struct {
	apiFlags
	File    string `arg:"" placeholder:"FILE" help:"Parameters as YAML or JSON, as push takes them."`
	With    string `arg:"" optional:"" placeholder:"FILE" help:"Compare with this file; the parameters in force if none is named."`
	Default bool   `help:"Compare with the defaults of this version and ask nobody."`
	JSON    bool   `name:"json" help:"Print the differences as a JSON array."`
}

// Help is shown by --help.
func (*diffParamsCommand) Help() string {
	return `Shows what a push of the first file would change: each parameter that differs, as it is in force and as the file wants it. Parameters that the file does not name stay as they are. With a second file, both are taken on top of the defaults.

Examples:

  weir params diff tuned.yaml
  weir params diff tuned.yaml --default
  weir params diff tuned.yaml yesterday.json`
}

// paramChange is one parameter that differs.
type paramChange struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

// Run compares.
func (c *diffParamsCommand) Run(e *env) error {
	if c.Default && c.With != "" {
		return badInput(fmt.Errorf("--default: the file %s is compared with already", c.With))
	}
	file, err := read(c.File, config.ParseParams)
	if err != nil {
		return err
	}
	from, err := c.base(e)
	if err != nil {
		return err
	}
	to, err := file.Apply(from)
	if c.With != "" && err == nil {
		to, err = file.Apply(model.DefaultParams())
	}
	if err != nil {
		return badInput(err)
	}
	changes := diff(&from, &to)
	if c.JSON {
		return json.NewEncoder(e.stdout).Encode(changes)
	}
	return printDiff(e.stdout, changes, &from, &to)
}

// base returns what the file is compared with.
func (c *diffParamsCommand) base(e *env) (model.Params, error) {
	p := model.DefaultParams()
	switch {
	case c.Default:
		return p, nil
	case c.With != "":
		other, err := read(c.With, config.ParseParams)
		if err != nil {
			return p, err
		}
		p, err = other.Apply(p)
		return p, badInput(err)
	}
	a, err := c.api()
	if err != nil {
		return p, err
	}
	var set paramSet
	if err := a.get(e.ctx, "/api/v1/params", &set); err != nil {
		return p, err
	}
	if set.Watched != nil {
		fmt.Fprintln(e.stderr, watching(&set.Watched.FleetGuard))
	}
	for _, spec := range model.ParamSpecs() {
		if v, ok := set.Params[spec.Name]; ok {
			if err := spec.Set(&p, v); err != nil {
				return p, badInput(fmt.Errorf("the controller is of another version: %w", err))
			}
		}
	}
	return p, nil
}

// diff lists the parameters that differ, in their order.
func diff(from, to *model.Params) []paramChange {
	changes := []paramChange{}
	for _, spec := range model.ParamSpecs() {
		if a, b := spec.Get(from), spec.Get(to); a != b {
			changes = append(changes, paramChange{spec.Name, spec.Unit, a, b})
		}
	}
	return changes
}

func printDiff(out io.Writer, changes []paramChange, from, to *model.Params) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintf(out, "no difference: both are %s\n", from.Hash())
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "PARAMETER\t%s\t%s\n", from.Hash(), to.Hash())
	for _, c := range changes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Name, inUnit(c.From, c.Unit), inUnit(c.To, c.Unit))
	}
	return w.Flush()
}

// inUnit writes a parameter's value for people.
func inUnit(v int64, unit string) string {
	if unit == "ns" {
		return model.Nanos(v).String()
	}
	return fmt.Sprintf("%d %s", v, unit)
}

// historyCommand is weir params history.
type historyCommand struct {
	apiFlags
	Last int  `default:"20" placeholder:"N" help:"How many at most, newest first."`
	JSON bool `name:"json" help:"Print the entries as a JSON array."`
}

// Help is shown by --help.
func (*historyCommand) Help() string {
	return `Lists the parameter sets that were put in force: when, by which record, by whom and why, what a guard decided of them, and on a terminal which one is watched now. A set that was refused is listed with its fault. The controller keeps its decisions for a time only; weir log tail shows what the log itself holds.

Examples:

  weir params history
  weir params history --last 5 --json`
}

// pushedSet is an entry of the history.
type pushedSet struct {
	Seq    uint64        `json:"seq"`
	Time   story.Instant `json:"time"`
	Hash   string        `json:"hash"`
	Reason string        `json:"reason"`
}

// Run asks and prints.
func (c *historyCommand) Run(e *env) error {
	if c.Last < 1 || c.Last > controller.MaxDecisions {
		return badInput(fmt.Errorf("--last=%d: want 1 to %d", c.Last, controller.MaxDecisions))
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	var found struct {
		Decisions []controller.Decision `json:"decisions"`
	}
	query := url.Values{"rule": {string(model.RuleParams)}, "limit": {fmt.Sprint(c.Last)}}
	if err := a.get(e.ctx, "/api/v1/decisions?"+query.Encode(), &found); err != nil {
		return err
	}
	var now struct {
		Guard *model.FleetGuard `json:"guard"`
	}
	if err := a.get(e.ctx, "/api/v1/status", &now); err != nil {
		return err
	}
	sets := []pushedSet{}
	for _, d := range found.Decisions {
		sets = append(sets, pushedSet{d.Seq, story.Instant(d.At), d.Params, d.Reason})
	}
	if c.JSON {
		return json.NewEncoder(e.stdout).Encode(sets)
	}
	if now.Guard != nil {
		fmt.Fprintln(e.stdout, watching(now.Guard))
	}
	if len(sets) == 0 {
		_, err := fmt.Fprintln(e.stdout, "nothing was pushed: the defaults are in force, or the decisions are not kept any more")
		return err
	}
	for _, s := range sets {
		if _, err := fmt.Fprintf(e.stdout, "%s  record %d  %s\n", s.Time, s.Seq, s.Reason); err != nil {
			return err
		}
	}
	return nil
}
