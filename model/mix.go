package model

// mix is what calls are made of, and turns limits on a part of that into limits
// that budgets have: a limit of input tokens a minute is one of
//
//	input_tpm · (input + output) / input
//
// tokens a minute, the same for output, and the least of them is told to the
// budget. So over a minute the parts are kept as well as the mix is steady; a
// ledger of its own for each part would keep them call by call, at the price of
// two more numbers in every report and grant. Before a call was seen all of it
// counts as either part. Images are requests: a call makes one.
//
// Input and Output are means over the last calls, in mixUnit of a token.
type mix struct{ Input, Output int64 }

const (
	// mixUnit keeps the rest of a mean over mixMemory calls.
	mixUnit   = 1024
	mixMemory = 64
	// mixStep is by how much of itself a limit must move to be told anew: each
	// change of the pace is a change of what is safe.
	mixStep = 32
)

// add takes a call that used so much.
func (m *mix) add(in, out Tokens) {
	i, o := min(bounded(int64(in)), maxUse/mixUnit)*mixUnit, min(bounded(int64(out)), maxUse/mixUnit)*mixUnit
	if m.Input == 0 && m.Output == 0 {
		m.Input, m.Output = i, o
		return
	}
	m.Input += (i - m.Input) / mixMemory
	m.Output += (o - m.Output) / mixMemory
}

// whole returns the tokens a minute of which part makes up limit, 0 for no limit.
func (m *mix) whole(limit, part int64) int64 {
	switch {
	case limit <= 0:
		return 0
	case m.Input == 0 && m.Output == 0:
		return limit
	case part == 0:
		return maxRate
	}
	return min(mulDiv(limit, m.Input+m.Output, part), maxRate)
}

// told returns the requests and tokens a minute that l comes to, 0 for no limit.
func (m *mix) told(l *Limits) (requests, tokens int64) {
	least := func(limits ...int64) (n int64) {
		for _, limit := range limits {
			if limit > 0 && (n == 0 || limit < n) {
				n = min(limit, maxRate)
			}
		}
		return n
	}
	requests = least(l.RequestsPerMinute, l.ImagesPerMinute)
	tokens = least(int64(l.TokensPerMinute), m.whole(int64(l.InputTokensPerMinute), m.Input), m.whole(int64(l.OutputTokensPerMinute), m.Output))
	return requests, tokens
}

// mixed tells the pool's budget what its limits come to by now.
func (p *pool) mixed() {
	if p.limits == nil {
		return
	}
	requests, tokens := p.mix.told(p.limits)
	p.requests.Told = requests
	if off := max(tokens-p.tokens.Told, p.tokens.Told-tokens); tokens == 0 || p.tokens.Told == 0 || off > p.tokens.Told/mixStep {
		p.tokens.Told = tokens
	}
}

// limitsOf returns what configuration says of the pool of that name, nil for
// nothing.
func (c *Config) limitsOf(pool string) *Limits {
	for i := range c.Channels {
		if PoolOfChannel(c.Channels[i].Name) == pool {
			return &c.Channels[i].Limits
		}
	}
	for i := range c.Groups {
		if PoolOfGroup(c.Groups[i].Name) == pool {
			return &c.Groups[i].Limits
		}
	}
	return nil
}
