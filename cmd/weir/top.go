package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	tea "charm.land/bubbletea/v2"

	"weir/cmd/weir/top"
	"weir/controller"
)

// topCommand is weir top.
type topCommand struct{ apiFlags }

// Help is shown by --help.
func (*topCommand) Help() string {
	return `A live view of the channels in this terminal, and of a channel's decisions. It only looks; orders are given with weir channel. From another machine it needs WEIR_TOKEN.

Examples:

  weir top
  WEIR_TOKEN=secret weir top --url http://10.0.0.5:8080`
}

// Run shows the fleet until the user ends it.
func (c *topCommand) Run(e *env) error {
	if !terminal(e.stdout) {
		return badInput(errors.New("top needs a terminal; weir status prints the same once"))
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	fleet := apiFleet{a}
	if _, err := fleet.Look(e.ctx); err != nil {
		return err
	}
	_, err = tea.NewProgram(top.New(e.ctx, fleet), tea.WithContext(e.ctx), tea.WithInput(e.stdin), tea.WithOutput(e.stdout)).Run()
	if e.ctx.Err() == nil { // else the process is stopped, and so it ends
		return err
	}
	return nil
}

// apiFleet is a fleet behind a controller's API.
type apiFleet struct{ api *api }

// Look implements top.Fleet.
func (f apiFleet) Look(ctx context.Context) (l top.Look, err error) {
	var s struct {
		Fleet  string `json:"fleet"`
		Leader string `json:"leader"`
		Leads  bool   `json:"leads"`
		Term   uint64 `json:"term"`
		Seq    uint64 `json:"seq"`
		Lag    uint64 `json:"lag_events"`
		Agents int    `json:"agents"`
	}
	var c fleetStatus
	for path, to := range map[string]any{"/api/v1/status": &s, "/api/v1/channels": &c} {
		if err := f.api.get(ctx, path, to); err != nil {
			return l, err
		}
	}
	return top.Look{
		At: time.Now(), Fleet: s.Fleet, Leader: s.Leader, Leads: s.Leads, Term: s.Term, Seq: s.Seq, Lag: s.Lag,
		Channels: c.Channels, Agents: s.Agents,
	}, nil
}

// topDecisions is how many decisions a screen may show.
const topDecisions = 100

// Decisions implements top.Fleet.
func (f apiFleet) Decisions(ctx context.Context, channel string) ([]controller.Decision, error) {
	var d struct {
		Decisions []controller.Decision `json:"decisions"`
	}
	err := f.api.get(ctx, fmt.Sprintf("/api/v1/decisions?limit=%d&channel=%s", topDecisions, url.QueryEscape(channel)), &d)
	return d.Decisions, err
}
