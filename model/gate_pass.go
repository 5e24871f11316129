package model

import "slices"

// A request that lacks nothing but tokens is passed by smaller ones, as
// backfilling schedulers do: else tokens lie idle while it waits for more, and
// what needs few stands behind it. Those that pass it take as many tokens as it
// needs itself, and no more: then the budget is saved for it, whatever it takes.
// While the fleet lacks tokens rather than requests the smallest goes first as
// far as that allows, whether or not the first would fit at the moment: it
// seldom lacks anything just when it is looked at, since grants are made to fit.
// So it waits for at most twice what it would in strict order, and at least half
// of every budget is handed out in order.
//
// Nobody is passed by who is less urgent.

// saves reports whether r must leave the tokens of p to the one that waits for them.
func (p *gatePool) saves(r *gateRequest) bool {
	s := p.saver
	return s != nil && s != r && (s.priority > r.priority || s.passed+r.tokens > s.tokens)
}

// spare returns the most tokens with which a request of that priority may start; it
// is negative where none may.
func (p *gatePool) spare(lost, met bool, priority Priority) Tokens {
	requests, tokens := p.left(lost, met)
	if requests == 0 {
		return -1
	}
	if tokens < 0 {
		tokens = gateMaxTokens
	}
	switch s := p.saver; {
	case s == nil:
		return tokens
	case s.priority > priority:
		return -1
	default:
		return min(tokens, s.tokens-s.passed)
	}
}

// save notes for which pools r, which waits, is the first to lack tokens.
func (g *Gate) save(now Nanos, r *gateRequest) {
	if r.avoid != nil {
		return
	}
	for i, n := nextTier(r.tiers, 0), 0; i >= 0 && n <= int(r.level); i, n = nextTier(r.tiers, i+1), n+1 {
		t := &r.route.tiers[i]
		for k := range t.choices {
			c := t.choices[k].channel
			if g.slot(now, c).cause != causeNone {
				continue
			}
			for _, p := range c.pools {
				requests, tokens := p.left(g.lost, g.met)
				if p.saver == nil && requests != 0 && tokens >= 0 && tokens < r.tokens {
					p.saver = r
					g.saving = append(g.saving, p)
				}
			}
		}
	}
}

// unsave forgets who waits for which budget.
func (g *Gate) unsave() {
	for _, p := range g.saving {
		p.saver = nil
	}
	g.saving = g.saving[:0]
}

// passer returns the first of a lane that may pass the first, nil if none may.
func (g *Gate) passer(now Nanos, l *queueLane) *gateRequest {
	if l.root == nil {
		return nil
	}
	first, most := l.first(), Tokens(-1)
	for i, n := nextTier(l.key.tiers, 0), 0; i >= 0 && n <= int(l.key.level); i, n = nextTier(l.key.tiers, i+1), n+1 {
		t := &l.key.route.tiers[i]
		for k := range t.choices {
			c := t.choices[k].channel
			if g.slot(now, c).cause != causeNone {
				continue
			}
			spare := Tokens(gateMaxTokens)
			for _, p := range c.pools {
				spare = min(spare, p.spare(g.lost, g.met, first.priority))
			}
			most = max(most, spare)
		}
	}
	if r := l.upTo(most); r != nil && r != first {
		return r
	}
	return nil
}

// lean reports whether tokens are what p lacks.
func (p *gatePool) lean() bool { return p.granted && p.scarce }

// leads returns the request of a lane that starts next: the first, or where
// tokens lack the smallest that may pass it.
func (l *queueLane) leads() *gateRequest {
	first := l.first()
	if l.block.cause != causeBudget || !slices.ContainsFunc(l.block.channel.pools, (*gatePool).lean) {
		return first
	}
	least := l.upTo(l.root.node.least)
	if first.passed+least.tokens <= first.tokens {
		return least
	}
	return first
}

// passes counts that r starts on c before those that were to start before it.
func (g *Gate) passes(r *gateRequest, c *gateChannel) {
	var first *gateRequest
	if r.state == gateQueued {
		if first = r.node.lane.first(); first != r {
			first.passed += r.tokens
		}
	}
	for _, p := range c.pools {
		if s := p.saver; s != nil && s != r && s != first {
			s.passed += r.tokens
		}
	}
	r.passed = 0
}
