package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"weir/model"
)

// statusCommand is weir status.
type statusCommand struct {
	apiFlags
	JSON bool `name:"json" help:"Print everything as one JSON object."`
}

// Help is shown by --help.
func (*statusCommand) Help() string {
	return `Shows the controller, the channels, the budgets and the agents. From another machine it needs WEIR_TOKEN.

Examples:

  weir status
  weir status --json | jq .channels
  WEIR_TOKEN=secret weir status --url http://10.0.0.5:8080`
}

// fleetStatus is all that status shows. Controller is as the API says it.
type fleetStatus struct {
	Controller json.RawMessage      `json:"controller"`
	Channels   []model.FleetChannel `json:"channels"`
	Pools      []model.FleetPool    `json:"pools"`
	Days       []model.FleetDay     `json:"days"`
	Agents     []model.FleetAgent   `json:"agents"`
}

// Run asks and prints.
func (c *statusCommand) Run(e *env) error {
	a, err := c.api()
	if err != nil {
		return err
	}
	var s fleetStatus
	for path, to := range map[string]any{"/api/v1/status": &s.Controller, "/api/v1/channels": &s, "/api/v1/agents": &s} {
		if err := a.get(e.ctx, path, to); err != nil {
			return err
		}
	}
	if c.JSON {
		return json.NewEncoder(e.stdout).Encode(&s)
	}
	return s.print(e.stdout, screenWidth(e.stdout))
}

// print writes the status for people, on a screen of a width or without a bound
// for 0.
func (s *fleetStatus) print(out io.Writer, width int) error {
	text, err := s.about()
	if err != nil {
		return err
	}
	text = wrapped(text, 2, width)
	for _, t := range []grid{s.channels(), s.budgets(), s.days(), s.agents()} {
		if len(t.rows) > 1 {
			text += "\n" + t.text(width)
		}
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// about is what is said of the controller.
func (s *fleetStatus) about() (string, error) {
	var c struct {
		Fleet, Leader, Version string
		Term, Seq              uint64
		Leads                  bool
		Lag                    uint64 `json:"lag_events"`
		Params                 string
		Guard                  *model.FleetGuard
		Faults                 []struct{ Kind, Text string } `json:"log_faults"`
	}
	if err := json.Unmarshal(s.Controller, &c); err != nil { //nolint:musttag // the names differ in case only
		return "", fmt.Errorf("read status: %w", err)
	}
	leads := "leads"
	if !c.Leads {
		leads = "follows " + c.Leader
	}
	var b strings.Builder
	fmt.Fprintf(&b, "fleet %s, term %d, record %d, %d behind; this controller %s, version %s, parameters %s\n", c.Fleet, c.Term, c.Seq, c.Lag, leads, c.Version, c.Params)
	if c.Guard != nil {
		fmt.Fprintln(&b, watching(c.Guard))
	}
	for _, f := range c.Faults {
		fmt.Fprintf(&b, "fault of the log: %s: %s\n", f.Kind, f.Text)
	}
	return b.String(), nil
}

func (s *fleetStatus) channels() (t grid) {
	t.add("CHANNEL", "MODE", "BREAKER", "WINDOW", "IN FLIGHT", "HELD", "QUEUED", "LEASED", "WEIGHT", "LATENCY", "WAIT", "ANSWERS", "REASON")
	for i := range s.Channels {
		c := &s.Channels[i]
		t.add(c.Name, c.Mode, c.Breaker, fmt.Sprintf("%.1f", float64(c.Window)/1000), fmt.Sprint(c.InFlight), fmt.Sprint(c.Held), fmt.Sprint(c.Queued), fmt.Sprint(c.Leased),
			fmt.Sprintf("%.2f", share(c.Weight)), fmt.Sprintf("%.2f", share(c.Latency)), wait(c.Wait), answers(c.Attempts), c.Reason)
	}
	return t
}

func (s *fleetStatus) budgets() (t grid) {
	t.add("BUDGET", "REQUESTS LEFT", "TOKENS LEFT", "WAITING")
	for _, p := range s.Pools {
		t.add(p.Name, left(p.RequestsLeft, p.RequestsPerMin), left(p.TokensLeft, p.TokensPerMin), fmt.Sprint(p.WaitingRequests))
	}
	return t
}

// days are those that are limited, and those of tenants.
func (s *fleetStatus) days() (t grid) {
	t.add("DAY", "STATE", "REQUESTS", "TOKENS", "COST", "ENDS IN")
	for i := range s.Days {
		d := &s.Days[i]
		if d.Limited() || strings.HasPrefix(d.Name, model.DayOfTenant("")) {
			t.add(d.Name, d.Stage, figure(d.Requests, 1), figure(d.Tokens, 1), figure(d.Cost, 1e6), (d.Reset - d.Reset%model.Second).String())
		}
	}
	return t
}

func (s *fleetStatus) agents() (t grid) {
	t.add("AGENT", "STATE", "MODE", "SLOTS", "IN FLIGHT", "QUEUED", "REPORTS", "LOST", "VERSION")
	for _, a := range s.Agents {
		t.add(a.Agent, a.State, a.Mode, fmt.Sprint(a.Slots), fmt.Sprint(a.InFlight), fmt.Sprint(a.Queued), fmt.Sprint(a.Reports), fmt.Sprint(a.Lost), a.Version)
	}
	return t
}

// figure writes what is used of a limit per day, in units of unit.
func figure(f model.DayFigure, unit float64) string {
	text := strconv.FormatFloat(float64(f.Used)/unit, 'f', -1, 64)
	if f.Hard > 0 {
		text += " of " + strconv.FormatFloat(float64(f.Hard)/unit, 'f', -1, 64)
	}
	if f.Soft > 0 {
		text += ", warns at " + strconv.FormatFloat(float64(f.Soft)/unit, 'f', -1, 64)
	}
	return text
}

func share(p model.PPM) float64 { return float64(p) / float64(model.One) }

func wait(n model.Nanos) string {
	if n == 0 {
		return "-"
	}
	return (n - n%model.Millisecond).String()
}

// answers lists the classes that came, in their order.
func answers(counts map[string]uint64) string {
	var list []string
	for _, c := range model.Classes {
		if n := counts[c.String()]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, c))
		}
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

// left writes what is left of a limit a minute; negative limits are none.
func left(n, limit int64) string {
	if limit < 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d of %d a minute", n, limit)
}
