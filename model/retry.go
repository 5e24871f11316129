package model

import "math/rand/v2"

// retryBudget bounds how many attempts of an agent are repeats. Each first
// attempt earns RetryConfig.Budget of a retry and the same part of its tokens;
// a retry costs one and its tokens. So over the fleet repeats stay under that
// share of the work, in calls and in tokens, without asking anybody.
type retryBudget struct {
	// credit is in PPM of one retry. Invariant: 0 ≤ credit ≤ retryBank.
	credit int64
	// tokens is what repeats may reserve. mean is the mean reservation.
	tokens, mean Tokens
	earned       bool
}

// retryBank is the most that is saved up: enough for the calls in flight when
// a channel dies, too little to carry a storm.
const retryBank = 32 * int64(One)

// earn takes one first attempt. The first of all earns a whole retry, so that
// a process that just began can repeat once.
func (b *retryBudget) earn(share PPM, tokens Tokens) {
	if share <= 0 {
		return
	}
	share = min(share, One)
	if !b.earned {
		b.earned, b.mean = true, tokens
		share = One
	}
	b.mean += (tokens - b.mean) / 16
	b.credit = min(b.credit+int64(share), retryBank)
	most := Tokens(mulDiv(int64(max(b.mean, 1)), retryBank, int64(One)))
	b.tokens = min(b.tokens+Tokens(scale(int64(tokens), share)), max(most, b.tokens))
}

// spend takes one retry of that many tokens and reports whether there was one.
func (b *retryBudget) spend(tokens Tokens) bool {
	if b.credit < int64(One) || b.tokens < tokens {
		return false
	}
	b.credit -= int64(One)
	b.tokens -= tokens
	return true
}

// retryWhere says where a request may be tried again.
type retryWhere uint8

const (
	retryNever     retryWhere = iota
	retryHere                 // after the backoff, wherever there is room
	retryElsewhere            // on another channel at once, else here after the backoff
	retryOther                // never again on this channel
	retryQuick                // once, soon
)

// retryPlan says where an attempt of that class may be repeated, and why not.
func retryPlan(class Class, broken uint8) (retryWhere, string) {
	switch class {
	case ClassRateLimited:
		return retryHere, "after the backoff"
	case ClassOverloaded:
		return retryElsewhere, "elsewhere first"
	case ClassQuotaExhausted:
		return retryOther, "the quota is used up; elsewhere"
	case ClassAuth:
		return retryOther, "the credential is refused; elsewhere"
	case ClassTransport:
		if broken <= 1 {
			return retryQuick, "the connection broke; once more"
		}
		return retryNever, "the connection broke twice"
	case ClassInvalid:
		return retryNever, "no other try helps"
	case ClassCanceled:
		return retryNever, "the client gave up"
	case ClassOK:
	}
	return retryNever, ""
}

// The backoff of a configuration that says nothing.
const (
	retryBase       = Second
	retryMax        = 30 * Second
	retryMultiplier = 2 * One
)

// retryBackoff returns the wait before try n+1 after try n ended:
//
//	max(Base · Multiplier^(n−1) up to Max, after) · (1 + Jitter·u), 0 ≤ u < 1
//
// so that it is never earlier than what the provider asked for.
func retryBackoff(c *RetryConfig, n int, after Nanos, rnd *rand.Rand) Nanos {
	d, top, by := c.Base, c.Max, c.Multiplier
	if d <= 0 {
		d = retryBase
	}
	if top <= 0 {
		top = retryMax
	}
	if by <= 0 {
		by = retryMultiplier
	}
	for i := 1; i < n && d < top && by > One; i++ {
		d = Nanos(scale(int64(d), by))
	}
	d = max(min(d, top), after)
	if spread := scale(int64(d), min(c.Jitter, One)); spread > 0 {
		d = gateLater(d, Nanos(rnd.Int64N(spread)))
	}
	return d
}
