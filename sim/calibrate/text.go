package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/workload"
)

// ErrEmpty says that a log holds no call to estimate anything from.
var ErrEmpty = errors.New("there is no call to estimate anything from")

// Build makes a world of a log.
func Build(l *Log, o Options) (*World, error) {
	if l.Len() == 0 {
		return nil, ErrEmpty
	}
	requests := l.requests()
	begin, end := l.calls[0].sent, l.calls[0].end()
	for i := range requests {
		begin = min(begin, requests[i].wanted)
	}
	for i := range l.calls {
		end = max(end, l.calls[i].end())
	}
	if end-begin > 31*24*model.Hour {
		return nil, fmt.Errorf("the log spans %s; a world of more than 31 days cannot be lived through", (end - begin).Duration().Round(time.Hour))
	}
	b := builder{log: l, o: o, begin: begin, end: end, channels: map[string]string{}, routes: map[string]string{}, requests: requests}
	return b.world()
}

// builder writes the file of a world.
type builder struct {
	log        *Log
	o          Options
	begin, end model.Nanos
	requests   []request
	report     Report
	streams    []*stream
	text       strings.Builder
	// channels and routes are the names in the file.
	channels, routes map[string]string
}

func (b *builder) line(format string, args ...any) { fmt.Fprintf(&b.text, format+"\n", args...) }

func (b *builder) world() (*World, error) {
	b.o.Name, b.o.Agents = fileName(cmp.Or(b.o.Name, "recorded")), max(b.o.Agents, 1)
	var never int
	b.streams, never = b.log.streams(b.requests, b.begin)
	duration := (b.end - b.begin).Duration().Round(time.Second) + time.Second
	b.report = Report{
		Calls: b.log.Len(), LeftOut: b.log.LeftOut, Odd: b.log.Odd, Requests: len(b.requests), Never: never,
		From: time.Unix(0, int64(b.begin)).UTC(), Duration: duration.Seconds(), Notes: []string{},
	}
	used := map[string]bool{}
	for i, name := range b.log.channels.list {
		b.channels[name] = unique(used, fileName(name))
		b.report.Providers = append(b.report.Providers, b.log.provider(i, b.begin, b.end))
	}
	if b.o.Deadline == 0 {
		b.report.Notes = append(b.report.Notes, "how long an answer is of use is in no log: the world has no deadlines unless they are given")
	}
	b.line("# Estimated from a log of %d calls, beginning %s.", b.report.Calls, b.report.From.Format(time.RFC3339))
	b.line("# Arrivals and sizes are as recorded; limits and latency are estimates, their intervals of 90 %% beside them.")
	b.line("name: %s\nabout: estimated from recorded calls\nduration: %s\nfleet:\n  agents: %d\n  bus: {delay: 2ms, jitter: 1ms}", b.o.Name, duration, b.o.Agents)
	b.groups()
	b.line("channels:")
	for _, p := range b.report.Providers {
		b.channel(&p)
	}
	b.line("routes:")
	b.writeRoutes()
	b.line("providers:")
	for i := range b.report.Providers {
		b.provider(&b.report.Providers[i])
	}
	b.line("workload:")
	w := &World{Traces: map[string]workload.Trace{}}
	for _, s := range b.streams {
		b.workload(s)
		w.Traces[s.file(b.o.Name)] = s.rows
	}
	w.Text, w.Report = b.text.String(), b.report
	var err error
	if w.Incident, err = incident.Parse(b.o.Name, strings.NewReader(w.Text)); err != nil {
		return nil, fmt.Errorf("write world: %w", err)
	}
	return w, nil
}

func (b *builder) config(channel string) *model.ChannelConfig {
	if b.o.Config == nil {
		return nil
	}
	for i := range b.o.Config.Channels {
		if b.o.Config.Channels[i].Name == channel {
			return &b.o.Config.Channels[i]
		}
	}
	return nil
}

// groups writes the groups with limits that are known to a channel of the log.
func (b *builder) groups() {
	if b.o.Config == nil || len(b.o.Config.Groups) == 0 {
		return
	}
	b.line("groups:")
	for i := range b.o.Config.Groups {
		g := &b.o.Config.Groups[i]
		b.line("  - {name: %s%s}", quote(fileName(g.Name)), told(&g.Limits))
	}
}

// told is what Weir was told, as a key of a flow mapping.
func told(l *model.Limits) string {
	var list []string
	add := func(key string, v int64) {
		if v > 0 {
			list = append(list, fmt.Sprintf("%s: %d", key, v))
		}
	}
	add("rpm", l.RequestsPerMinute)
	add("tpm", int64(l.TokensPerMinute))
	add("input_tpm", int64(l.InputTokensPerMinute))
	add("output_tpm", int64(l.OutputTokensPerMinute))
	add("concurrency", l.Concurrency)
	if len(list) == 0 {
		return ""
	}
	return ", limits: {" + strings.Join(list, ", ") + "}"
}

func (b *builder) channel(p *Provider) {
	name := b.channels[p.Channel]
	extra := ""
	if c := b.config(p.Channel); c != nil {
		extra = told(&c.Limits)
		var groups []string
		for _, g := range c.Groups {
			groups = append(groups, quote(fileName(g)))
		}
		if len(groups) > 0 {
			extra += ", groups: [" + strings.Join(groups, ", ") + "]"
		}
	}
	b.line("  - {name: %s, provider: %s%s}", quote(name), quote(name), extra)
}

// writeRoutes writes the routes that the workloads ask for.
func (b *builder) writeRoutes() {
	used := map[string]bool{}
	for _, s := range b.streams {
		if _, done := b.routes[s.route]; done {
			continue
		}
		name := unique(used, fileName(s.route))
		b.routes[s.route] = name
		b.line("  - {name: %s, tiers: [%s]}", quote(name), strings.Join(b.tiers(s.route), ", "))
	}
}

// tiers are those of the configuration, as far as the log tells of their
// channels; else the channel of the route's name, or the most used one.
func (b *builder) tiers(route string) (tiers []string) {
	if b.o.Config != nil {
		for i := range b.o.Config.Routes {
			if r := &b.o.Config.Routes[i]; r.Name == route {
				for k := range r.Tiers {
					if t := b.tier(&r.Tiers[k]); t != "" {
						tiers = append(tiers, t)
					}
				}
			}
		}
	}
	if len(tiers) > 0 {
		return tiers
	}
	if name, ok := b.channels[route]; ok {
		return []string{fmt.Sprintf("[{channel: %s}]", quote(name))}
	}
	most := slices.MaxFunc(b.report.Providers, func(x, y Provider) int { return cmp.Compare(x.Calls, y.Calls) })
	return []string{fmt.Sprintf("[{channel: %s}]", quote(b.channels[most.Channel]))}
}

func (b *builder) tier(t *model.TierConfig) string {
	var list []string
	for _, c := range t.Channels {
		if name, ok := b.channels[c.Channel]; ok {
			list = append(list, fmt.Sprintf("{channel: %s, weight: %d}", quote(name), max(c.Weight, 1)))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func (b *builder) provider(p *Provider) {
	b.line("  - name: %s", quote(b.channels[p.Channel]))
	for _, n := range p.Notes {
		b.line("    # %s", strings.Map(printable, n))
	}
	b.concurrency(p)
	b.rate("rpm", &p.Requests)
	b.rate("tpm", &p.Tokens)
	l := &p.Latency
	b.line("    # base %s ms, prefill %s, output %s tokens/s", show(l.BaseMS), show(l.Input), show(l.Output))
	b.line("    service: {base: %s%s%s, cv: %.3f}", time.Duration(l.BaseMS.Best*1e6).Round(time.Microsecond), speed("prefill_tokens_per_s", l.Input), speed("output_tokens_per_s", l.Output), min(l.CV, 3))
	if l.Factor > 1 {
		b.line("    slowdown: {from: %.4f, factor: %.3f}", l.From, l.Factor)
	}
	if p.NoiseRate > 0 {
		b.line("    noise: {error_rate: %.6f, status: %d}", min(p.NoiseRate, 1), min(max(p.NoiseStatus, 400), 599))
	}
	b.refusal(p)
	b.changes(p)
}

// printable keeps comments and codes to what stands on one line and opens
// nothing.
func printable(c rune) rune {
	if c < ' ' || c == '[' || c == ']' || c == '{' || c == '}' || c == 0x7f || c >= 0x80 && c < 0xa0 || c == 0x2028 || c == 0x2029 {
		return '?'
	}
	return c
}

func show(i Interval) string { return fmt.Sprintf("%.4g (%.4g to %.4g)", i.Best, i.Low, i.High) }

func speed(key string, i Interval) string {
	if i.Best < 1 || i.Best > 1e9 {
		return ""
	}
	return fmt.Sprintf(", %s: %.0f", key, i.Best)
}

// interval is an estimate as a comment has it.
func (e Estimate) interval() string {
	if e.Open {
		return fmt.Sprintf("%.6g or more, seen from below only", e.Low)
	}
	return fmt.Sprintf("%.6g to %.6g", e.Low, e.High)
}

// slots is the limit that a stretch gets in the file: where it is open, enough
// for what was seen and no less than elsewhere.
func (p *Provider) slots(s *Span) int64 {
	if s.Open {
		return int64(max(math.Ceil(s.Low), p.cap()))
	}
	return int64(math.Round(s.Best))
}

func (b *builder) concurrency(p *Provider) {
	for _, s := range p.Concurrency {
		b.line("    # concurrency from %s to %s: %s", s.From.Duration().Round(time.Second), s.To.Duration().Round(time.Second), s.interval())
	}
	c := p.Capacity
	switch {
	case c != nil:
		for k := range c.Bends {
			x := c.Bends[k].Whole()
			b.line("    # most answers a second at %s: with %.0f in flight, %s", c.Bends[k].At.Duration().Round(time.Millisecond), x.Best, x.interval())
		}
		b.line("    concurrency: %d\n    queue: %d", c.slotsAt(0), c.queue)
	case p.cap() > 0:
		b.line("    concurrency: %d", p.slots(&p.Concurrency[0]))
	}
}

// slotsAt are the slots in the file at a bend.
func (c *Capacity) slotsAt(k int) int64 {
	return max(int64(math.Round(c.Bends[k].Best*c.slots)), 1)
}

func (b *builder) changes(p *Provider) {
	if c := p.Capacity; c != nil {
		b.line("    changes:")
		for k := range c.Bends[1:] {
			from, to := c.Bends[k].At, c.Bends[k+1].At
			b.line("      - {at: %s, over: %s, set: {concurrency: %d}}", from.Duration().Round(time.Millisecond), (to - from).Duration().Round(time.Millisecond), c.slotsAt(k+1))
		}
		return
	}
	if p.cap() == 0 || len(p.Concurrency) < 2 {
		return
	}
	b.line("    changes:")
	for i := range p.Concurrency[1:] {
		s := &p.Concurrency[i+1]
		b.line("      - {at: %s, set: {concurrency: %d}}", s.From.Duration().Round(time.Millisecond), p.slots(s))
	}
}

func (b *builder) rate(key string, r *Rate) {
	if r.Accepted+r.Refused == 0 {
		return
	}
	b.line("    # %s: %s", key, r.interval())
	if r.Refused == 0 || r.Best < 1 {
		return
	}
	limit := int64(math.Round(r.Best))
	burst := ""
	if r.Window == incident.TokenBucket {
		burst = fmt.Sprintf(", burst: %d", max(int64(math.Round(r.Burst.Best)), 1))
	}
	b.line("    %s: {limit: %d, window: %s%s}", key, limit, r.Window, burst)
}

// refusal writes how the provider says no. What the shape itself would say is
// left to it, so that the reader of an answer learns as much as it did.
func (b *builder) refusal(p *Provider) {
	r := &p.Busy
	if p.Limited.Count > 0 {
		r = &p.Limited
	}
	charged := p.Requests.Charged && p.Requests.Refused > 0 || p.Tokens.Charged && p.Tokens.Refused > 0
	b.line("    refusal: {%s, charged: %v}", r.flow(), charged)
	if p.Limited.Count > 0 && p.Busy.Count > 0 {
		b.line("    refusals:\n      concurrency: {%s}", p.Busy.flow())
	}
}

func (r *Refusal) flow() string {
	text := fmt.Sprintf("shape: %s, retry_after: %s, delay: %s", cmp.Or(r.Shape, incident.ShapeOpenAI), cmp.Or(r.RetryAfter, "none"), time.Duration(min(max(r.DelayMS, 0), 60_000)*1e6).Round(time.Microsecond))
	if r.Status >= 100 && r.Status <= 599 {
		text += fmt.Sprintf(", status: %d", r.Status)
	}
	if r.Code != "" {
		text += ", code: " + strconv.Quote(strings.Map(printable, r.Code[:min(len(r.Code), 64)]))
	}
	return text
}

func (b *builder) workload(s *stream) {
	b.line("  - name: %s", quote(s.name))
	b.line("    route: %s\n    tenant: %s", quote(b.routes[s.route]), quote(fileName(s.tenant)))
	b.line("    arrivals: {kind: trace, file: %s}", quote(s.file(b.o.Name)))
	if s.first > 0 {
		b.line("    start: %s", time.Duration(s.first))
	}
	b.line("    input_tokens: {kind: trace}\n    output_tokens: {kind: trace}")
	if b.o.Deadline > 0 {
		b.line("    deadline: %s", b.o.Deadline)
	}
	if habit := b.habit(s); habit != "" && b.o.Config == nil {
		b.line("    client: {retry: %s}", habit)
	}
}

// habit is how the application repeated what failed, as far as the log tells.
func (b *builder) habit(s *stream) string {
	var tries []int
	var waits []model.Nanos
	for i := range b.requests {
		r := &b.requests[i]
		if b.log.routes.list[r.route] != s.route || r.tries < 2 {
			continue
		}
		tries = append(tries, r.tries)
		waits = append(waits, max(r.secondAt-r.firstEnd, 0))
	}
	if len(tries) == 0 {
		return ""
	}
	slices.Sort(tries)
	slices.Sort(waits)
	wait := max(waits[len(waits)/2].Duration().Round(time.Millisecond), time.Millisecond)
	return fmt.Sprintf("{kind: backoff, after: %s, multiplier: 2, max: %s, jitter: 0.2, attempts: %d}", wait, max(30*time.Second, wait), min(tries[len(tries)-1], 100))
}

func quote(s string) string { return strconv.Quote(s) }
