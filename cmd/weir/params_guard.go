package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/controller"
	"weir/model"
)

// guardFlags say how a push is watched.
type guardFlags struct {
	Canary string        `placeholder:"CHANNEL" help:"Try the set on this channel alone, and compare with the others."`
	Guard  string        `placeholder:"FIGURE=CHANGE,..." help:"Changes that are tolerated; goodput=-5%,waste=+2% if none is named but --for or --canary is."`
	For    time.Duration `placeholder:"TIME" help:"How long to watch, 10s to 1h; 10m if none is given."`
	Wait   bool          `help:"Wait for the verdict; the exit code is 1 when the set was taken back."`
}

// pushGuard is a guard as the controller's API takes it.
type pushGuard struct {
	For     model.Nanos `json:"for_ns"`
	Goodput model.PPM   `json:"goodput_ppm"`
	Waste   model.PPM   `json:"waste_ppm"`
}

// watchedSet is what the API says of a set under guard.
type watchedSet struct {
	model.FleetGuard
	Params map[string]int64 `json:"params"`
}

// guard reads the flags; nil means that the push is not watched.
func (g *guardFlags) guard() (*pushGuard, error) {
	if g.Guard == "" && g.For == 0 && g.Canary == "" {
		if g.Wait {
			return nil, badInput(errors.New("--wait: there is no verdict without --guard, --for or --canary"))
		}
		return nil, nil
	}
	g.For = cmp.Or(g.For, 10*time.Minute)
	if g.For < time.Duration(model.GuardLeast) || g.For > time.Duration(model.GuardMost) {
		return nil, badInput(fmt.Errorf("--for=%s: want %s to %s", g.For, model.GuardLeast, model.GuardMost))
	}
	p := &pushGuard{For: model.Nanos(g.For), Goodput: -50_000, Waste: 20_000}
	if g.Guard == "" {
		return p, nil
	}
	p.Goodput, p.Waste = -model.One, model.One // what is not named is tolerated
	for part := range strings.SplitSeq(g.Guard, ",") {
		name, text, _ := strings.Cut(part, "=")
		change, err := parseChange(text)
		switch {
		case err != nil:
		case name == "goodput":
			p.Goodput = change
		case name == "waste":
			p.Waste = change
		default:
			err = errors.New("want goodput or waste")
		}
		if err != nil {
			return nil, badInput(fmt.Errorf("--guard=%s: %q: %w", g.Guard, part, err))
		}
	}
	return p, nil
}

// parseChange reads a change in percent such as -2% or +0.5%.
func parseChange(text string) (model.PPM, error) {
	number, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || math.IsNaN(v) || v < -100 || v > 100 {
		return 0, errors.New("want a change from -100% to +100%, such as -2%")
	}
	return model.PPM(math.Round(v * 10_000)), nil
}

// watching says how a push is watched.
func watching(g *model.FleetGuard) string {
	where, figures := "", "too little to judge yet"
	if g.Canary != "" {
		where = " on " + g.Canary + " alone"
	}
	if g.Enough {
		figures = fmt.Sprintf("goodput %s (tolerated %s), waste %s (tolerated %s)", inPercent(g.Goodput), inPercent(g.GoodputMin), inPercent(g.Waste), inPercent(g.WasteMax))
	}
	return fmt.Sprintf("watched: params %s (%s) of record %d%s, %s more: %s", g.Name, g.Hash, g.Seq, where, g.Left-g.Left%model.Second, figures)
}

func inPercent(p model.PPM) string { return fmt.Sprintf("%+.1f%%", float64(p)/10_000) }

// awaitVerdict follows the watch of a record until it ends and prints why.
func awaitVerdict(e *env, a *api, seq uint64) error {
	hash := ""
	for {
		var now struct {
			Guard *model.FleetGuard `json:"guard"`
		}
		if err := a.get(e.ctx, "/api/v1/status", &now); err != nil {
			return err
		}
		if now.Guard == nil || now.Guard.Seq != seq {
			return printVerdict(e, a, seq, hash)
		}
		hash = now.Guard.Hash
		select {
		case <-e.ctx.Done():
			return errors.New("stopped before the verdict; the controller goes on watching")
		case <-time.After(time.Second):
		}
	}
}

// verdictWithin is how long a decision may take to be kept, where it is asked for.
const verdictWithin = 10 * time.Second

// printVerdict prints the first decision about parameters after the push,
// which is a verdict or the push that ended the watch. The set was kept when it
// is in force by it.
func printVerdict(e *env, a *api, seq uint64, hash string) error {
	var found struct {
		Decisions []controller.Decision `json:"decisions"`
	}
	query := url.Values{"rule": {string(model.RuleParams)}, "from": {fmt.Sprint(seq + 1)}, "oldest": {"1"}, "limit": {"1"}}
	for end := time.Now().Add(verdictWithin); len(found.Decisions) == 0; time.Sleep(100 * time.Millisecond) {
		if err := a.get(e.ctx, "/api/v1/decisions?"+query.Encode(), &found); err != nil {
			return err
		}
		if time.Now().After(end) {
			return errors.New("the watch has ended, and the controller keeps no decision about it")
		}
	}
	d := &found.Decisions[0]
	if d.Params != hash {
		return errors.New(d.Reason)
	}
	_, err := fmt.Fprintln(e.stdout, d.Reason)
	return err
}
