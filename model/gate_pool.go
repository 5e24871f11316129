package model

// gatePool is one budget as the gate sees it: all-or-nothing reservations
// against grants that are cumulative over the boot, or without a lease
// against a bucket of the safe rate.
type gatePool struct {
	name string
	// limits are what the provider told, for an agent that never met a
	// controller and for requests larger than a whole minute's limit.
	limits Limits

	granted  bool // the lease in force limits the pool
	revision uint64
	// requests and tokens are granted in all, negative for no limit.
	requests int64
	tokens   Tokens
	// scarce is set while the fleet has less left of tokens than of requests.
	scarce bool
	// safeRequests and safeTokens are per minute.
	safeRequests Milli
	safeTokens   Tokens

	// usedRequests counts attempts started, usedTokens is what settled
	// attempts used and those in flight reserved.
	usedRequests int64
	usedTokens   Tokens

	// calls (milli-requests) and words (tokens) are the buckets used without
	// a lease.
	calls, words gateBucket

	// saver is the first in order that lacks tokens of the pool, nil for none.
	saver *gateRequest

	waiting  gateWaiting
	reported PoolReport // what the last report said
	seen     bool       // in the lease being read
}

// rated reports whether a rate limit of the pool is known.
func (p *gatePool) rated() bool {
	return p.granted || p.limits.RequestsPerMinute > 0 || p.limits.TokensPerMinute > 0
}

// gateBucket is a local token bucket. It may go below zero, so that a call
// larger than the bucket waits longer instead of forever.
type gateBucket struct {
	level, rem int64
	at         Nanos
}

// gateBurst is how much of its rate a local bucket saves up: little, since
// the agent that is cut off cannot know what others do.
const gateBurst = 10 * Second

func gateBucketTop(rate int64) int64 { return mulDiv(rate, int64(gateBurst), int64(Minute)) }

// advance refills to now at rate per minute, up to top.
func (b *gateBucket) advance(now Nanos, rate, top int64) {
	span := min(now-b.at, Hour)
	if span <= 0 {
		return
	}
	b.at = now
	whole := mulDiv(rate, int64(span), int64(Minute))
	part := mulMod(rate, int64(span), int64(Minute)) + b.rem
	b.level += whole + part/int64(Minute)
	b.rem = part % int64(Minute)
	if b.level >= top {
		b.level, b.rem = top, 0
	}
}

// after returns how long until the level is need at rate per minute.
func (b *gateBucket) after(need, rate int64) Nanos {
	lack := need - b.level
	if lack <= 0 {
		return 0
	}
	if rate <= 0 {
		return gateNever
	}
	return Nanos(mulDiv(lack, int64(Minute), rate)) + 1
}

// rates returns the rates per minute that hold without a lease, in
// milli-requests and tokens; negative for no limit.
func (p *gatePool) rates(met bool) (calls, words int64) {
	if !met {
		// Nobody else is known; what the provider told bounds one agent.
		calls, words = -1, -1
		if n := p.limits.RequestsPerMinute; n > 0 {
			calls = mulDiv(n, 1000, 1)
		}
		if n := p.limits.TokensPerMinute; n > 0 {
			words = int64(n)
		}
		return calls, words
	}
	if !p.granted {
		return -1, -1
	}
	calls, words = int64(max(p.safeRequests, 0)), int64(max(p.safeTokens, 0))
	if p.requests < 0 {
		calls = -1
	}
	if p.tokens < 0 {
		words = -1
	}
	return calls, words
}

// wait returns how long until a request of that many tokens may start: 0 for
// now, gateNever when only news can tell.
func (p *gatePool) wait(now Nanos, lost, met bool, tokens Tokens) Nanos {
	if lost {
		return p.waitAlone(now, met, int64(tokens))
	}
	if !p.granted {
		return 0
	}
	if p.requests >= 0 && p.usedRequests+1 > p.requests {
		return gateNever
	}
	// A request beyond a whole minute's limit is let go on a whole minute:
	// more is never granted.
	if t := p.limits.TokensPerMinute; t > 0 {
		tokens = min(tokens, t)
	}
	if p.tokens >= 0 && p.usedTokens+tokens > p.tokens {
		return gateNever
	}
	return 0
}

// soon estimates how long until a request of that many tokens may start, if
// grants go on coming at the rate that is safe without them; 0 when nothing
// tells.
func (p *gatePool) soon(tokens Tokens) Nanos {
	if !p.granted {
		return 0
	}
	var wait Nanos
	if lack := p.usedRequests + 1 - p.requests; p.requests >= 0 && lack > 0 && p.safeRequests > 0 {
		wait = Nanos(mulDiv(mulDiv(lack, 1000, 1), int64(Minute), int64(p.safeRequests)))
	}
	if lack := p.usedTokens + tokens - p.tokens; p.tokens >= 0 && lack > 0 && p.safeTokens > 0 {
		wait = max(wait, Nanos(mulDiv(int64(lack), int64(Minute), int64(p.safeTokens))))
	}
	return wait
}

func (p *gatePool) waitAlone(now Nanos, met bool, tokens int64) Nanos {
	calls, words := p.rates(met)
	var wait Nanos
	if calls >= 0 {
		top := max(gateBucketTop(calls), 1000)
		p.calls.advance(now, calls, top)
		wait = p.calls.after(1000, calls)
	}
	if words >= 0 {
		top := max(gateBucketTop(words), 1)
		p.words.advance(now, words, top)
		wait = max(wait, p.words.after(min(tokens, top), words))
	}
	return wait
}

// start reserves one request of that many tokens.
func (p *gatePool) start(tokens Tokens) {
	p.usedRequests++
	p.usedTokens += tokens
	p.calls.level -= 1000
	p.words.level -= int64(tokens)
}

// settle replaces a reservation by what was used.
func (p *gatePool) settle(reserved, used Tokens) {
	p.usedTokens += used - reserved
	p.words.level += int64(reserved - used)
}

// undo takes back a start that was never sent.
func (p *gatePool) undo(tokens Tokens) {
	p.usedRequests--
	p.usedTokens -= tokens
	p.calls.level += 1000
	p.words.level += int64(tokens)
}

// lose begins the time without a lease: what was granted and not used is
// gone, the safe rate begins.
func (p *gatePool) lose(now Nanos) {
	p.calls = gateBucket{at: now}
	p.words = gateBucket{at: now}
}

// fill begins the time before the first lease with full buckets.
func (p *gatePool) fill(now Nanos) {
	calls, words := p.rates(false)
	p.calls = gateBucket{at: now, level: max(gateBucketTop(max(calls, 0)), 1000)}
	p.words = gateBucket{at: now, level: max(gateBucketTop(max(words, 0)), 1)}
}

// left returns what may still be started, negative for no limit.
func (p *gatePool) left(lost, met bool) (requests int64, tokens Tokens) {
	if !lost {
		if !p.granted {
			return -1, -1
		}
		requests, tokens = -1, -1
		if p.requests >= 0 {
			requests = max(p.requests-p.usedRequests, 0)
		}
		if p.tokens >= 0 {
			tokens = max(p.tokens-p.usedTokens, 0)
		}
		return requests, tokens
	}
	calls, words := p.rates(met)
	requests, tokens = -1, -1
	if calls >= 0 {
		requests = max(p.calls.level, 0) / 1000
	}
	if words >= 0 {
		tokens = Tokens(max(p.words.level, 0))
	}
	return requests, tokens
}
