package model

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestGateReplay plays the narratives under testdata/gate: what happens to one
// gate, step by step, and what it makes of it.
func TestGateReplay(t *testing.T) {
	datadriven.Walk(t, "testdata/gate", func(t *testing.T, path string) {
		p := &gatePlay{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p.t, p.d = t, d
			p.out.Reset()
			p.step()
			return p.out.String()
		})
	})
}

// gatePlay drives one gate from a file.
type gatePlay struct {
	t       *testing.T
	d       *datadriven.TestData
	out     strings.Builder
	g       *Gate
	now     Nanos
	permits map[uint64]uint64 // by request
	tickets map[uint64]Ticket
	names   map[Ticket]uint64
	report  Attempts
}

func (p *gatePlay) step() {
	switch p.d.Cmd {
	case "gate":
		cfg := GateConfig{Agent: "a1", Boot: 7, Version: "v1", Rand: rand.New(rand.NewPCG(1, 2))}
		cfg.QueueLimit = int(p.num("queue", 0))
		if p.has("observe") {
			cfg.Mode = ModeObserve
		}
		*p = gatePlay{t: p.t, d: p.d, g: NewGate(cfg), permits: map[uint64]uint64{}, tickets: map[uint64]Ticket{}, names: map[Ticket]uint64{}}
		p.now = Second
	case "config":
		p.g.SetConfig(p.now, uint64(p.num("seq", 0)), gateConfigOf(p.t, p.d.Input))
		p.poll()
	case "term":
		p.g.SetTerm(p.now, &TermNotice{Term: uint64(p.num("term", 1))})
	case "limits":
		p.g.SetLimits(p.now, p.limits())
		p.poll()
	case "lease":
		p.g.SetLease(p.now, p.lease())
		p.poll()
	case "ask":
		p.ask()
	case "done":
		p.done()
	case "first":
		p.g.FirstToken(p.now, p.permits[uint64(p.num("id", 0))])
	case "leave":
		p.g.Leave(p.now, p.tickets[uint64(p.num("id", 0))])
		p.poll()
	case "wait":
		p.wait(p.span(p.d.CmdArgs[0].Key))
	case "report":
		p.g.Report(p.now, &p.report)
		p.writeReport()
	case "due":
		fmt.Fprintf(&p.out, "report due in %s\n", p.g.ReportDue()-p.now)
	case "view":
		p.view()
	case "stop":
		p.g.Stop(p.now)
		p.poll()
	default:
		p.t.Fatalf("unknown command %q", p.d.Cmd)
	}
}

// wait lets time pass, polling whenever the gate asks for it.
func (p *gatePlay) wait(d Nanos) {
	end := p.now + d
	for {
		wake := max(p.g.NextWake(), p.now)
		if wake > end {
			break
		}
		p.now = wake
		p.poll()
		if wake == end {
			break
		}
	}
	p.now = end
	p.poll()
}

func (p *gatePlay) poll() {
	for _, r := range p.g.Poll(p.now, nil) {
		fmt.Fprintf(&p.out, "%s: ", p.now-Second)
		p.reply(r)
	}
}

func (p *gatePlay) ask() {
	n := p.num("n", 1)
	for i := range n {
		a := Ask{
			Request: uint64(p.num("id", 0) + i), Route: p.str("route", "r"), Tenant: p.str("tenant", ""),
			Core: p.has("core"), Capability: p.str("need", ""), Tokens: Tokens(p.num("tokens", 0)),
		}
		a.Priority, _ = ParsePriority(p.str("priority", ""))
		if d := p.str("deadline", ""); d != "" {
			a.Deadline = p.now + p.span(d)
		}
		r := p.g.Ask(p.now, a)
		if p.has("quiet") {
			p.permits[a.Request] = r.Permit.ID
			continue
		}
		p.reply(r)
	}
}

func (p *gatePlay) done() {
	o := Outcome{
		Code: p.str("code", ""), In: Tokens(p.num("in", 0)), Out: Tokens(p.num("out", 0)),
		UsageKnown: p.has("known"), Exposed: p.has("exposed"), Unsent: p.has("unsent"),
	}
	o.Class, _ = ParseClass(p.str("class", "ok"))
	o.Dimension, _ = ParseDimension(p.str("dimension", ""))
	if p.has("group") {
		o.Scope = ScopeGroup
	}
	if s := p.str("after", ""); s != "" {
		o.RetryAfter = p.span(s)
	}
	for i := range p.num("n", 1) {
		id := uint64(p.num("id", 0) + i)
		n := p.g.Done(p.now, p.permits[id], o)
		if p.has("quiet") {
			continue
		}
		fmt.Fprintf(&p.out, "%d %s", id, n.Kind)
		if n.Kind == NextRetry {
			p.tickets[id], p.names[n.Ticket] = n.Ticket, id
			fmt.Fprintf(&p.out, " after=%s elsewhere=%v", n.After, n.Elsewhere)
		}
		if n.Wait > 0 {
			fmt.Fprintf(&p.out, " wait=%s", n.Wait)
		}
		if n.Answer != "" {
			fmt.Fprintf(&p.out, " answer=%q", n.Answer)
		}
		if n.Reason != "" {
			fmt.Fprintf(&p.out, " (%s)", n.Reason)
		}
		p.out.WriteByte('\n')
	}
	p.poll()
}

func (p *gatePlay) reply(r Reply) {
	fmt.Fprintf(&p.out, "%d %s", r.Request, r.Kind)
	switch r.Kind {
	case ReplyAdmitted:
		p.permits[r.Request] = r.Permit.ID
		m := r.Permit
		fmt.Fprintf(&p.out, " %s tier=%d try=%d", m.Channel, m.Tier, m.Try)
		if m.Probe != 0 {
			fmt.Fprintf(&p.out, " probe=%d", m.Probe)
		}
		if m.Degraded {
			p.out.WriteString(" degraded")
		}
		if m.Observed {
			p.out.WriteString(" observed")
		}
	case ReplyQueued:
		p.tickets[r.Request] = r.Ticket
	case ReplyRule:
		fmt.Fprintf(&p.out, " %q", r.Answer)
	case ReplyRefused:
		fmt.Fprintf(&p.out, " %s", r.Class)
	}
	if r.Position > 0 {
		fmt.Fprintf(&p.out, " position=%d", r.Position)
	}
	if r.Wait > 0 {
		fmt.Fprintf(&p.out, " wait=%s", r.Wait)
	}
	if r.Reason != "" {
		fmt.Fprintf(&p.out, " (%s: %s)", r.Channel, r.Reason)
	}
	p.out.WriteByte('\n')
}

func (p *gatePlay) limits() *LimitSet {
	l := &LimitSet{Term: uint64(p.num("term", 1)), Seq: uint64(p.num("seq", 0))}
	for line := range strings.Lines(p.d.Input) {
		w := gateWordsOf(line)
		c := ChannelLimit{Channel: w.name, Revision: w.num(p.t, "rev", l.Seq), Epoch: w.num(p.t, "epoch", 0), Weight: PPM(w.num(p.t, "weight", uint64(One))), Reason: w.args["reason"]}
		for s := BreakerClosed; s <= BreakerMisconfigured; s++ {
			if s.String() == w.args["breaker"] {
				c.Breaker = s
			}
		}
		if w.args["wait"] != "" {
			c.Wait = p.span(w.args["wait"])
		}
		if w.args["mode"] == "observe" {
			c.Mode = ModeObserve
		}
		for s := range strings.SplitSeq(w.args["cuts"], ",") {
			var cut Cut
			if n, _ := fmt.Sscanf(s, "%d:%d/%d", &cut.Revision, &cut.Num, &cut.Den); n == 3 {
				c.Cuts = append(c.Cuts, cut)
			}
		}
		l.Channels = append(l.Channels, c)
	}
	return l
}

func (p *gatePlay) lease() *Lease {
	l := &Lease{
		Agent: p.str("agent", "a1"), Boot: uint64(p.num("boot", 7)), Term: uint64(p.num("term", 1)), Seq: uint64(p.num("seq", 0)),
		Quotes: uint64(p.num("quotes", int64(p.report.Seq))), Duration: p.span(p.str("duration", "15s")),
	}
	for line := range strings.Lines(p.d.Input) {
		w := gateWordsOf(line)
		rev := w.num(p.t, "rev", l.Seq)
		if pool, ok := strings.CutPrefix(w.name, "pool:"); ok {
			signed := func(key string) int64 { return int64(w.num(p.t, key, ^uint64(0))) }
			l.Pools = append(l.Pools, PoolGrant{
				Pool: pool, Revision: rev, Requests: signed("requests"), Tokens: Tokens(signed("tokens")),
				SafeRequests: Milli(signed("saferequests")), SafeTokens: Tokens(signed("safetokens")),
			})
			continue
		}
		g := ChannelGrant{Channel: w.name, Revision: rev, Slots: int64(w.num(p.t, "slots", 0)), Offset: int64(w.num(p.t, "offset", 0)), Epoch: w.num(p.t, "epoch", 0), Probe: w.num(p.t, "probe", 0)}
		g.Safe = int64(w.num(p.t, "safe", uint64(g.Slots*9/10)))
		g.ProbeWithin = Minute
		l.Channels = append(l.Channels, g)
	}
	return l
}

func (p *gatePlay) writeReport() {
	r := &p.report
	fmt.Fprintf(&p.out, "report %d base=%d", r.Seq, r.Base)
	if r.Version != "" {
		fmt.Fprintf(&p.out, " version=%s", r.Version)
	}
	if r.Leaving {
		p.out.WriteString(" leaving")
	}
	p.out.WriteByte('\n')
	for _, c := range r.Channels {
		fmt.Fprintf(&p.out, "  %s inflight=%d held=%d accepted=%d queued=%d urgent=%d waiting=%d applied=%d would=%d\n",
			c.Channel, c.InFlight, c.Held, c.Accepted, c.Queued, c.Urgent, c.WaitingTokens, c.Applied, c.WouldRefuse)
	}
	for _, c := range r.Pools {
		fmt.Fprintf(&p.out, "  %s used=%d/%d waiting=%d/%d applied=%d\n", c.Pool, c.UsedRequests, c.UsedTokens, c.WaitingRequests, c.WaitingTokens, c.Applied)
	}
	for i, a := range r.Attempts {
		if i == 12 {
			fmt.Fprintf(&p.out, "  and %d more\n", len(r.Attempts)-i)
			break
		}
		fmt.Fprintf(&p.out, "  attempt %d.%d %s %s age=%s took=%s queued=%s epoch=%d", a.Request, a.Try, r.Channels[a.Channel].Channel, a.Class, a.Age, a.Took, a.Queued, a.Epoch)
		if a.Probe != 0 {
			fmt.Fprintf(&p.out, " probe=%d", a.Probe)
		}
		for _, h := range a.Hints {
			fmt.Fprintf(&p.out, " hint=%s:%d", h.Dimension, h.Remaining)
		}
		p.out.WriteByte('\n')
	}
}

func (p *gatePlay) view() {
	var v GateView
	p.g.View(p.now, &v)
	fmt.Fprintf(&p.out, "alone=%v met=%v lease=%s running=%d waiting=%d backoff=%d stale=%d ignored=%d\n", v.Alone, v.Met, v.LeaseLeft, v.Running, v.Waiting, v.Backoff, v.Stale, v.Ignored)
	for _, c := range v.Channels {
		fmt.Fprintf(&p.out, "  %s share=%d granted=%d inflight=%d held=%d breaker=%s mode=%s wait=%s", c.Channel, c.Share, c.Granted, c.InFlight, c.Held, c.Breaker, c.Mode, c.Wait)
		if c.WouldRefuse > 0 {
			fmt.Fprintf(&p.out, " would=%d", c.WouldRefuse)
		}
		if c.Reason != "" {
			fmt.Fprintf(&p.out, " (%s)", c.Reason)
		}
		p.out.WriteByte('\n')
	}
	for _, c := range v.Pools {
		fmt.Fprintf(&p.out, "  %s used=%d/%d left=%d/%d\n", c.Pool, c.UsedRequests, c.UsedTokens, c.LeftRequests, c.LeftTokens)
	}
}

func (p *gatePlay) has(key string) bool { return p.d.HasArg(key) }

func (p *gatePlay) str(key, other string) string {
	for _, a := range p.d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return other
}

func (p *gatePlay) num(key string, other int64) int64 {
	s := p.str(key, "")
	if s == "" {
		return other
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		p.t.Fatalf("%s: %v", p.d.Pos, err)
	}
	return n
}

func (p *gatePlay) span(s string) Nanos { return gateSpanOf(p.t, s) }

func gateSpanOf(t *testing.T, s string) Nanos {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return Nanos(d)
}

// gateWords is a line of a file: a name and key=value pairs.
type gateWords struct {
	name string
	args map[string]string
}

func gateWordsOf(line string) gateWords {
	f := strings.Fields(line)
	w := gateWords{name: f[0], args: map[string]string{}}
	for _, s := range f[1:] {
		k, v, _ := strings.Cut(s, "=")
		w.args[k] = v
	}
	return w
}

func (w gateWords) num(t *testing.T, key string, other uint64) uint64 {
	s, ok := w.args[key]
	if !ok {
		return other
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(n)
}

// gateConfigOf reads a configuration: one channel, group, route or setting a line.
func gateConfigOf(t *testing.T, text string) *Config {
	c := &Config{Fleet: "f"}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		w := gateWordsOf(rest)
		if kind == "retry" {
			w = gateWordsOf(line)
		}
		limits := Limits{RequestsPerMinute: int64(w.num(t, "rpm", 0)), TokensPerMinute: Tokens(w.num(t, "tpm", 0))}
		switch kind {
		case "channel":
			ch := ChannelConfig{Name: w.name, Limits: limits, Alone: uint32(w.num(t, "alone", 0))}
			if g := w.args["groups"]; g != "" {
				ch.Groups = strings.Split(g, ",")
			}
			for o := OnLossSafe; o <= OnLossLast; o++ {
				if o.String() == w.args["onloss"] {
					ch.OnLoss = o
				}
			}
			if m := w.args["mode"]; m != "" {
				ch.HasMode = true
				if m == "observe" {
					ch.Mode = ModeObserve
				}
			}
			c.Channels = append(c.Channels, ch)
		case "group":
			c.Groups = append(c.Groups, GroupConfig{Name: w.name, Limits: limits})
		case "route":
			c.Routes = append(c.Routes, gateRouteOf(t, w))
		case "retry":
			c.Retry = RetryConfig{MaxAttempts: uint8(w.num(t, "max", 3)), Base: Second, Max: 30 * Second, Multiplier: 2 * One, Budget: PPM(w.num(t, "budget", 100_000))}
			if w.args["total"] != "" {
				c.Retry.Total = gateSpanOf(t, w.args["total"])
			}
		case "mode":
			if w.name == "observe" {
				c.Mode = ModeObserve
			}
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	c.Normalize()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// gateRouteOf reads tiers as "a:2,b/light@c/rule=busy".
func gateRouteOf(t *testing.T, w gateWords) RouteConfig {
	r := RouteConfig{Name: w.name, DegradeCore: -1, DegradeOther: -1}
	if s := w.args["core"]; s != "" && s != "never" {
		r.DegradeCore = gateSpanOf(t, s)
	}
	if s := w.args["other"]; s != "" && s != "never" {
		r.DegradeOther = gateSpanOf(t, s)
	}
	for s := range strings.SplitSeq(w.args["tiers"], "/") {
		var tier TierConfig
		if rule, ok := strings.CutPrefix(s, "rule:"); ok {
			r.Tiers = append(r.Tiers, TierConfig{Rule: rule})
			continue
		}
		if capability, rest, ok := strings.Cut(s, "@"); ok {
			tier.Capability, s = capability, rest
		}
		for c := range strings.SplitSeq(s, ",") {
			name, weight, ok := strings.Cut(c, ":")
			wc := WeightedChannel{Channel: name, Weight: 1}
			if ok {
				n, err := strconv.Atoi(weight)
				if err != nil {
					t.Fatal(err)
				}
				wc.Weight = uint32(n)
			}
			tier.Channels = append(tier.Channels, wc)
		}
		r.Tiers = append(r.Tiers, tier)
	}
	return r
}
