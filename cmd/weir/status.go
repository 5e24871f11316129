package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

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
	return s.print(e.stdout)
}

// print writes the status for people.
func (s *fleetStatus) print(out io.Writer) error {
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
		return fmt.Errorf("read status: %w", err)
	}
	leads := "leads"
	if !c.Leads {
		leads = "follows " + c.Leader
	}
	fmt.Fprintf(out, "fleet %s, term %d, record %d, %d behind; this controller %s, version %s, parameters %s\n", c.Fleet, c.Term, c.Seq, c.Lag, leads, c.Version, c.Params)
	if c.Guard != nil {
		fmt.Fprintln(out, watching(c.Guard))
	}
	for _, f := range c.Faults {
		fmt.Fprintf(out, "fault of the log: %s: %s\n", f.Kind, f.Text)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nCHANNEL\tMODE\tBREAKER\tWINDOW\tIN FLIGHT\tHELD\tQUEUED\tLEASED\tWEIGHT\tLATENCY\tWAIT\tANSWERS\tREASON")
	for i := range s.Channels {
		ch := &s.Channels[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%d\t%d\t%d\t%d\t%.2f\t%.2f\t%s\t%s\t%s\n", ch.Name, ch.Mode, ch.Breaker, float64(ch.Window)/1000,
			ch.InFlight, ch.Held, ch.Queued, ch.Leased, share(ch.Weight), share(ch.Latency), wait(ch.Wait), answers(ch.Attempts), ch.Reason)
	}
	if len(s.Pools) > 0 {
		fmt.Fprintln(w, "\nBUDGET\tREQUESTS LEFT\tTOKENS LEFT\tWAITING")
		for _, p := range s.Pools {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", p.Name, left(p.RequestsLeft, p.RequestsPerMin), left(p.TokensLeft, p.TokensPerMin), p.WaitingRequests)
		}
	}
	printDays(w, s.Days)
	fmt.Fprintln(w, "\nAGENT\tSTATE\tMODE\tSLOTS\tIN FLIGHT\tQUEUED\tREPORTS\tLOST\tVERSION")
	for _, a := range s.Agents {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", a.Agent, a.State, a.Mode, a.Slots, a.InFlight, a.Queued, a.Reports, a.Lost, a.Version)
	}
	return w.Flush()
}

// printDays writes the days that are limited, and those of tenants.
func printDays(w io.Writer, days []model.FleetDay) {
	title := "\nDAY\tSTATE\tREQUESTS\tTOKENS\tCOST\tENDS IN\n"
	for i := range days {
		d := &days[i]
		if !d.Limited() && !strings.HasPrefix(d.Name, model.DayOfTenant("")) {
			continue
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%s\n", title, d.Name, d.Stage, figure(d.Requests, 1), figure(d.Tokens, 1),
			figure(d.Cost, 1e6), (d.Reset - d.Reset%model.Second))
		title = ""
	}
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
