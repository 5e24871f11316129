package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"weir/model"
)

// channelCommand is weir channel.
type channelCommand struct {
	Pause   pauseCommand   `cmd:"" help:"Start nothing on a channel any more."`
	Resume  resumeCommand  `cmd:"" help:"End a pause, a hold and an open breaker."`
	Set     setCommand     `cmd:"" help:"Set weight, limit, mode or breaker."`
	Release releaseCommand `cmd:"" help:"End a hold: calls may start although the provider named a wait."`
	Forget  forgetCommand  `cmd:"" help:"Drop an agent that is gone for good, and what it holds of every channel."`
}

// order is a command as the controller's API takes it.
type order struct {
	Command string `json:"command"`
	Channel string `json:"channel,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Value   int64  `json:"value,omitempty"`
	Mode    string `json:"mode,omitempty"`
	For     string `json:"for,omitempty"`
	By      string `json:"by,omitempty"`
	Why     string `json:"why,omitempty"`
}

// orderFlags are common to all orders.
type orderFlags struct {
	apiFlags
	Why string `placeholder:"TEXT" help:"The reason, for the log."`
	By  string `placeholder:"NAME" help:"Who orders it, for the log; the user's name if none is given."`
}

// channelFlags are common to the orders to one channel.
type channelFlags struct {
	orderFlags
	Channel string `arg:"" placeholder:"CHANNEL" help:"The channel's name."`
}

// give sends orders to the channel.
func (f *channelFlags) give(e *env, orders ...order) error {
	for i := range orders {
		orders[i].Channel = f.Channel
	}
	return f.send(e, orders...)
}

// send sends orders, each when the one before is in force.
func (f *orderFlags) send(e *env, orders ...order) error {
	a, err := f.api()
	if err != nil {
		return err
	}
	if f.By == "" {
		f.By = whoAmI()
	}
	for _, o := range orders {
		o.By, o.Why = f.By, f.Why
		var taken struct {
			Seq uint64 `json:"seq"`
		}
		if err := a.post(e.ctx, "/api/v1/commands", o, &taken); err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%s %s is in force since record %d\n", o.Command, cmp.Or(o.Channel, o.Agent, o.Mode), taken.Seq)
	}
	return nil
}

// pauseCommand is weir channel pause.
type pauseCommand struct {
	channelFlags
	For time.Duration `placeholder:"TIME" help:"End by itself after this time; without it only resume ends it."`
}

// Help is shown by --help.
func (*pauseCommand) Help() string {
	return `What is in flight ends as it would. The order becomes an event of the log and reaches every agent.

Examples:

  weir channel pause minimax-main
  weir channel pause minimax-main --for 10m --why "provider announced maintenance"`
}

// Run gives the order.
func (c *pauseCommand) Run(e *env) error {
	o := order{Command: model.CommandPause.String()}
	if c.For < 0 {
		return badInput(fmt.Errorf("--for=%s: want a time above 0", c.For))
	}
	if c.For > 0 {
		o.For = c.For.String()
	}
	return c.give(e, o)
}

// resumeCommand is weir channel resume.
type resumeCommand struct{ channelFlags }

// Help is shown by --help.
func (*resumeCommand) Help() string {
	return `Use it too when a breaker is open for a credential that was mended. Re-entry is a ramp.

Examples:

  weir channel resume minimax-main
  weir channel resume minimax-main --why "key was renewed"`
}

// Run gives the order.
func (c *resumeCommand) Run(e *env) error {
	return c.give(e, order{Command: model.CommandResume.String()})
}

// releaseCommand is weir channel release.
type releaseCommand struct{ channelFlags }

// Help is shown by --help.
func (*releaseCommand) Help() string {
	return `A pause and a breaker stay as they are; resume ends those as well. The next refusal holds the channel again.

Examples:

  weir channel release minimax-main --why "the provider raised our limit"`
}

// Run gives the order.
func (c *releaseCommand) Run(e *env) error {
	return c.give(e, order{Command: model.CommandRelease.String()})
}

// forgetCommand is weir channel forget.
type forgetCommand struct {
	orderFlags
	Agent string `arg:"" placeholder:"AGENT" help:"The agent's id, as weir status shows it."`
}

// Help is shown by --help.
func (*forgetCommand) Help() string {
	return `An agent that is silent is forgotten by itself after ten minutes; until then its part of the windows is kept for it. Forget only one that surely does not run any more: what it would still send would be beside the limits. If it speaks again it joins anew.

Examples:

  weir channel forget pod-7f9c --why "machine was taken down"`
}

// Run gives the order.
func (c *forgetCommand) Run(e *env) error {
	return c.send(e, order{Command: model.CommandForget.String(), Agent: c.Agent})
}

// modeCommand is weir mode.
type modeCommand struct {
	orderFlags
	Mode string `arg:"" placeholder:"MODE" help:"enforce or observe."`
}

// Help is shown by --help.
func (*modeCommand) Help() string {
	return `In observe everything is computed and shown and nothing is blocked: the way to adopt Weir, and the way to switch it off at once. It holds for every channel that does not set a mode of its own, until the other is ordered or a configuration is pushed.

Examples:

  weir mode observe --why "first week"
  weir mode enforce`
}

// Run gives the order.
func (c *modeCommand) Run(e *env) error {
	if c.Mode != model.ModeEnforce.String() && c.Mode != model.ModeObserve.String() {
		return badInput(fmt.Errorf("mode %s: want enforce or observe", c.Mode))
	}
	return c.send(e, order{Command: model.CommandSetMode.String(), Mode: c.Mode})
}

// setCommand is weir channel set.
type setCommand struct {
	channelFlags
	Weight  string        `placeholder:"SHARE" help:"Fixed weight from 0 to 1; auto gives it back to the law."`
	Limit   string        `placeholder:"SLOTS" help:"Most attempts in flight over the whole fleet; none takes it back."`
	Mode    string        `placeholder:"MODE" help:"enforce or observe; auto takes it back, so that the configuration or the fleet decides."`
	Breaker string        `placeholder:"STATE" help:"open or closed."`
	For     time.Duration `placeholder:"TIME" help:"For a breaker that is opened: close it after this time."`
	Wait    time.Duration `placeholder:"TIME" help:"For a limit: wait, so long at most, until no more than that is in use; the exit code is 1 when it still is."`
}

// Help is shown by --help.
func (*setCommand) Help() string {
	return `Each flag is an order of its own, in force when the command returns.

Examples:

  weir channel set minimax-main --limit 20 --why "shared with the nightly job"
  weir channel set minimax-main --weight 0.5
  weir channel set minimax-main --weight auto --limit none
  weir channel set minimax-main --mode observe
  weir channel set minimax-main --mode auto
  weir channel set minimax-main --breaker open --for 5m
  weir channel set minimax-main --limit 0 --wait 5m --why "moves to another fleet"`
}

// Run gives the orders.
func (c *setCommand) Run(e *env) error {
	orders, err := c.orders()
	if err != nil {
		return badInput(err)
	}
	if err := c.give(e, orders...); err != nil || c.Wait == 0 {
		return err
	}
	return c.fits(e, orders[slices.IndexFunc(orders, isLimit)].Value)
}

func isLimit(o order) bool { return o.Command == model.CommandSetLimit.String() && o.Value >= 0 }

// fits waits until the fleet uses no more of the channel than limit slots. What
// is claimed counts what an agent may use that has not heard of the limit.
func (c *setCommand) fits(e *env, limit int64) error {
	a, err := c.api()
	if err != nil {
		return err
	}
	for end := time.Now().Add(c.Wait); ; {
		var ch model.FleetChannel
		if err := a.get(e.ctx, "/api/v1/channels/"+url.PathEscape(c.Channel), &ch); err != nil {
			return err
		}
		if ch.Claimed <= limit && ch.InFlight+ch.Held <= limit {
			fmt.Fprintf(e.stdout, "%s: no more than %d slots are in use\n", c.Channel, limit)
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: after %s agents still may use %d slots; one that is away keeps its part until it is heard or forgotten (weir status)", c.Channel, c.Wait, ch.Claimed)
		}
		select {
		case <-e.ctx.Done():
			return errors.New("stopped before what is in use was within the limit, which stays in force")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *setCommand) orders() (orders []order, err error) {
	if c.Weight != "" {
		o := order{Command: model.CommandSetWeight.String(), Value: -1}
		if c.Weight != "auto" {
			v, err := strconv.ParseFloat(c.Weight, 64)
			if err != nil || math.IsNaN(v) || v < 0 || v > 1 {
				return nil, fmt.Errorf("--weight=%s: want a number from 0 to 1, or auto", c.Weight)
			}
			o.Value = int64(math.Round(v * float64(model.One)))
		}
		orders = append(orders, o)
	}
	if c.Limit != "" {
		o := order{Command: model.CommandSetLimit.String(), Value: -1}
		if c.Limit != "none" {
			if o.Value, err = strconv.ParseInt(c.Limit, 10, 32); err != nil || o.Value < 0 {
				return nil, fmt.Errorf("--limit=%s: want a whole number from 0, or none", c.Limit)
			}
		}
		orders = append(orders, o)
	}
	if c.Mode != "" {
		o := order{Command: model.CommandSetMode.String(), Mode: c.Mode}
		switch c.Mode {
		case "auto":
			o.Mode, o.Value = "", -1
		case model.ModeEnforce.String(), model.ModeObserve.String():
		default:
			return nil, fmt.Errorf("--mode=%s: want enforce, observe or auto", c.Mode)
		}
		orders = append(orders, o)
	}
	if c.Breaker != "" {
		o, err := c.breaker()
		if err != nil {
			return nil, err
		}
		orders = append(orders, o)
	}
	if c.Wait < 0 || c.Wait > 0 && !slices.ContainsFunc(orders, isLimit) {
		return nil, fmt.Errorf("--wait=%s: want a time above 0, and a --limit to wait for", c.Wait)
	}
	if len(orders) == 0 {
		return nil, errors.New("nothing to set: give --weight, --limit, --mode or --breaker")
	}
	return orders, nil
}

func (c *setCommand) breaker() (o order, err error) {
	o.Command = model.CommandForceBreaker.String()
	switch c.Breaker {
	case "open":
		o.Value = 1
	case "closed":
	default:
		return o, fmt.Errorf("--breaker=%s: want open or closed", c.Breaker)
	}
	if c.For < 0 {
		return o, fmt.Errorf("--for=%s: want a time above 0", c.For)
	}
	if c.For > 0 {
		o.For = c.For.String()
	}
	return o, nil
}
