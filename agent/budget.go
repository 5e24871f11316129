package agent

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"weir/agent/dialect"
	"weir/model"
)

// BudgetConfig is a rule on what the requests of a route may take. It never
// changes a request.
type BudgetConfig struct {
	// Input is the most tokens a request may be estimated to have; a larger
	// one is refused. 0 means any.
	Input model.Tokens
	// Margin, at least 1, caps what is reserved for an answer to so many times
	// what 99 of 100 answers of the route took. Clients ask for far more than
	// they get, and what is reserved is nobody else's until the answer has
	// ended. 0 reserves what the request asks for. Where a channel of the
	// route charges what is asked for, so much is reserved all the same.
	Margin float64
}

const (
	// outputStep is the ratio of two neighbouring classes of answers by their
	// tokens: a cap is at most so much too large.
	outputStep = 1.05
	// outputMemory is after how many answers one counts 1/e, outputLeast how
	// many must have been seen before anything is capped.
	outputMemory = 2000
	outputLeast  = 200
	// outputMost is the last class: beyond the longest answers there are.
	outputMost = 350
	// maxOutputs bounds the routes that are learned: as many as there can be.
	maxOutputs = 4096
	// longestAnswer is more tokens than any model says in one answer.
	longestAnswer = 1 << 20
	// outputPart is the part of the answers that shall be within.
	outputPart = 0.99
)

// outputs learns per route what its answers take.
type outputs struct {
	mu sync.Mutex
	by map[string]*output // by route
}

// output counts answers by their tokens, in classes that fade.
type output struct {
	seen   uint64
	sum    float64
	counts [outputMost + 1]float64
}

// learn takes an answer's tokens.
func (o *outputs) learn(route string, tokens model.Tokens) {
	class := 0
	if tokens > 1 {
		class = min(int(math.Ceil(math.Log(float64(tokens))/math.Log(outputStep))), outputMost)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil {
		o.by = map[string]*output{}
	}
	c := o.by[route]
	if c == nil {
		if len(o.by) >= maxOutputs { // of configurations that are long gone
			clear(o.by)
		}
		c = &output{}
		o.by[route] = c
	}
	const keep = 1 - 1.0/outputMemory
	for i := range c.counts {
		c.counts[i] *= keep
	}
	c.counts[class]++
	c.sum = c.sum*keep + 1
	c.seen++
}

// within returns what nearly all answers of a route took, at least; ok is false
// while too few were seen.
func (o *outputs) within(route string) (tokens model.Tokens, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.by[route]
	if c == nil || c.seen < outputLeast {
		return 0, false
	}
	beyond := (1 - outputPart) * c.sum
	for i := outputMost; i > 0; i-- {
		if beyond -= c.counts[i]; beyond < 0 {
			return model.Tokens(math.Ceil(math.Pow(outputStep, float64(i)))), true
		}
	}
	return 1, true
}

// reserve is what is reserved for a request of that input whose answer may have
// so many tokens: never more than a minute of the route's widest channel, since
// whoever holds so much keeps everybody else from starting.
func (x *exchange) reserve(input, asked model.Tokens, route *model.RouteConfig) model.Tokens {
	c := x.transport.client
	if most, ok := c.reserves(route); ok {
		asked = min(asked, most)
	}
	if !c.charges(route) {
		asked = min(asked, longestAnswer)
	}
	if most := c.widest(route); most > 0 {
		return min(input+asked, max(input, most))
	}
	return input + asked
}

// endless refuses a request that asks for a longer answer than any channel of
// its route ever lets through: they charge what is asked for, so that no waiting
// helps.
func (x *exchange) endless(input, asked model.Tokens, route *model.RouteConfig) *dialect.Fault {
	f := x.transport.client.fleet.Load()
	var most model.Tokens
	for _, t := range route.Tiers {
		for _, w := range t.Channels {
			ch := f.channels[w.Channel]
			if ch == nil || !ch.ChargeMax {
				return nil
			}
			n := f.minute(ch)
			if n == 0 || input+asked <= n {
				return nil
			}
			most = max(most, n)
		}
	}
	if most == 0 || asked == 0 || x.observed() {
		return nil
	}
	return mistake(http.StatusBadRequest, "more_than_a_minute",
		fmt.Sprintf("the request asks for up to %d tokens beside about %d of its own, the provider counts what is asked for, and the channels of route %q let at most %d through a minute; ask for fewer", asked, input, route.Name, most))
}

// reserves is the most that is reserved for an answer of a route; ok is false
// where nothing caps it.
func (c *Client) reserves(route *model.RouteConfig) (most model.Tokens, ok bool) {
	margin := c.cfg.Budgets[route.Name].Margin
	if margin <= 0 || c.charges(route) {
		return 0, false
	}
	if most, ok = c.outputs.within(route.Name); !ok {
		return 0, false
	}
	return model.Tokens(math.Ceil(min(float64(most)*max(margin, 1), math.MaxInt32))), true
}

// charges reports whether a channel of a route charges what is asked for.
func (c *Client) charges(route *model.RouteConfig) bool {
	f := c.fleet.Load()
	for _, t := range route.Tiers {
		for _, w := range t.Channels {
			if ch := f.channels[w.Channel]; ch != nil && ch.ChargeMax {
				return true
			}
		}
	}
	return false
}

// minute is how many tokens a minute a channel's provider was told to let
// through, for it and its quota groups; 0 when that is not told.
func (f *fleet) minute(ch *model.ChannelConfig) model.Tokens {
	told := func(l *model.Limits) model.Tokens {
		if l.TokensPerMinute == 0 && l.InputTokensPerMinute > 0 && l.OutputTokensPerMinute > 0 {
			return l.InputTokensPerMinute + l.OutputTokensPerMinute
		}
		return l.TokensPerMinute
	}
	least := told(&ch.Limits)
	for i := range f.config.Groups {
		g := &f.config.Groups[i]
		if n := told(&g.Limits); n > 0 && slices.Contains(ch.Groups, g.Name) && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// widest is the most tokens a minute that a channel of the route lets through,
// as far as that was configured or answers told; 0 when nothing is known.
func (c *Client) widest(route *model.RouteConfig) (most model.Tokens) {
	f := c.fleet.Load()
	for _, t := range route.Tiers {
		for _, w := range t.Channels {
			ch := f.channels[w.Channel]
			if ch == nil {
				continue
			}
			n := f.minute(ch)
			if n == 0 {
				n = c.minutes.of(w.Channel)
			}
			most = max(most, n)
		}
	}
	return most
}

// minutes remembers how many tokens a minute the answers of a channel say that
// its provider lets through.
type minutes struct {
	mu sync.Mutex
	by map[string]model.Tokens // by channel
}

// learn takes what an answer of a channel told about limits.
func (m *minutes) learn(channel string, hints []model.LimitHint) {
	var most int64
	for _, h := range hints {
		if h.Dimension == model.DimTokens {
			most = max(most, h.Limit)
		}
	}
	if most == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[string]model.Tokens{}
	}
	m.by[channel] = model.Tokens(most)
}

// keep forgets channels that are no longer configured.
func (m *minutes) keep(channels map[string]*model.ChannelConfig) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.by, func(name string, _ model.Tokens) bool { return channels[name] == nil })
}

func (m *minutes) of(channel string) model.Tokens {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[channel]
}

// oversize refuses a request whose input is over what its route takes.
func (x *exchange) oversize(input model.Tokens, route string) *dialect.Fault {
	most := x.transport.client.cfg.Budgets[route].Input
	if most <= 0 || input <= most || x.observed() {
		return nil
	}
	return mistake(http.StatusBadRequest, "input_too_large",
		fmt.Sprintf("the request has about %d tokens, and route %q takes at most %d; shorten it, or ask a route that takes more", input, route, most))
}

// writeReserves writes what is reserved at most for an answer, where that is
// capped.
func (c *Client) writeReserves(w io.Writer) {
	routes := c.Fleet().Routes
	for i := range routes {
		route := &routes[i]
		if most, ok := c.reserves(route); ok {
			metrics.WriteGaugeUint64(w, fmt.Sprintf("weir_output_reserve_tokens{route=%q}", route.Name), uint64(most))
		}
	}
}
