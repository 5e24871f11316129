package peer

import "weir/sim/incident"

// Split is a static share of what the provider's documentation says: every
// process is configured with an N-th of each told limit, rounded down but at
// least one slot, N being the number of processes when it was deployed. Where
// nothing is told it limits nothing. Limits per minute and per day are token
// buckets as deep as the period's share; a call that is larger than its bucket
// waits for a full one. Tokens are reserved for the prompt and max_tokens, and
// what was not used is given back at the end.
//
// This is the usual practice of client-side limiting (one token bucket and
// one semaphore per process, the quota divided by the number of replicas)
// and has no single source.
type Split struct {
	shares []*Share
	// charge: tokens count as asked for, not as used.
	charge bool
}

// NewSplit returns a limiter on the shares that a call needs: its channel's
// and those of the account limits it belongs to. charge says that the
// provider counts max_tokens instead of the tokens used.
func NewSplit(charge bool, shares ...*Share) *Split { return &Split{shares: shares, charge: charge} }

// Ask waits until every share has room.
func (l *Split) Ask(now int64, c Call) (Verdict, int64) {
	at := now
	for _, s := range l.shares {
		at = max(at, s.free(now, c))
	}
	if at > now {
		return Wait, at
	}
	return Admit, 0
}

// Start takes from every share.
func (l *Split) Start(now int64, c Call) Mark {
	for _, s := range l.shares {
		s.take(now, c)
	}
	return 0
}

// Done gives slots back, and the tokens that were not used.
func (l *Split) Done(now int64, s *Sample) {
	back := Call{}
	switch {
	case s.OK() && !l.charge:
		back = Call{Input: s.Call.Input - s.Input, MaxOutput: s.Call.MaxOutput - s.Output}
	case s.Throttled():
		back = s.Call
	}
	for _, share := range l.shares {
		share.back(now, back)
	}
}

// Share is one process's share of the limits told for one channel or account.
type Share struct {
	slots                         slots
	capped                        bool
	rpm, tpm, inputTPM, outputTPM bucket
	rpd, tpd                      bucket
}

// NewShare returns an n-th of told limits.
func NewShare(told incident.Limits, n int64) *Share {
	n = max(n, 1)
	s := &Share{
		rpm: newBucket(told.RPM, n, minute), tpm: newBucket(told.TPM, n, minute),
		inputTPM: newBucket(told.InputTPM, n, minute), outputTPM: newBucket(told.OutputTPM, n, minute),
		rpd: newBucket(told.RequestsPerDay, n, day), tpd: newBucket(told.TokensPerDay, n, day),
	}
	if told.Concurrency >= 0 {
		s.capped = true
		s.slots.limit = max(told.Concurrency/n, min(told.Concurrency, 1))
	}
	return s
}

// free is when a call has room, Never if that depends on others to end.
func (s *Share) free(now int64, c Call) int64 {
	if s.capped && s.slots.inFlight >= s.slots.limit {
		return Never
	}
	tokens := c.Input + c.MaxOutput
	return max(
		s.rpm.free(now, 1), s.tpm.free(now, tokens),
		s.inputTPM.free(now, c.Input), s.outputTPM.free(now, c.MaxOutput),
		s.rpd.free(now, 1), s.tpd.free(now, tokens),
	)
}

func (s *Share) take(now int64, c Call) {
	s.slots.inFlight++
	s.rpm.add(now, -1)
	s.rpd.add(now, -1)
	s.tokens(now, Call{Input: -c.Input, MaxOutput: -c.MaxOutput})
}

func (s *Share) back(now int64, c Call) {
	s.slots.inFlight--
	s.tokens(now, c)
}

// tokens adds to the token buckets.
func (s *Share) tokens(now int64, c Call) {
	s.tpm.add(now, c.Input+c.MaxOutput)
	s.inputTPM.add(now, c.Input)
	s.outputTPM.add(now, c.MaxOutput)
	s.tpd.add(now, c.Input+c.MaxOutput)
}

// bucket is an n-th of a limit per period, full at the start. It counts in
// n-ths of a unit, so that shares below one unit are exact.
type bucket struct {
	limit  int64 // units per period over all processes; negative for none
	n      int64
	period int64
	level  int64 // n-ths of a unit
	at     int64 // instant up to which refill was credited
}

func newBucket(limit, n, period int64) bucket {
	return bucket{limit: limit, n: n, period: period, level: max(limit, 0)}
}

// free is the first instant at which amount fits.
func (b *bucket) free(now, amount int64) int64 {
	if b.limit < 0 || amount <= 0 {
		return now
	}
	b.refill(now)
	need := min(amount*b.n, b.limit) - b.level
	switch {
	case need <= 0 && b.limit > 0:
		return now
	case b.limit == 0:
		return Never
	}
	return max(b.at+incident.Scale(need, b.period, b.limit)+1, now+1)
}

// add gives amount back, or takes it when negative.
func (b *bucket) add(now, amount int64) {
	if b.limit < 0 {
		return
	}
	b.refill(now)
	b.level = min(b.level+amount*b.n, b.limit)
}

// refill credits whole n-ths; the rest of the time is for the next one.
func (b *bucket) refill(now int64) {
	gained := incident.Scale(max(now-b.at, 0), b.limit, b.period)
	if gained == 0 {
		return
	}
	if b.level += min(gained, b.limit-b.level); b.level == b.limit {
		b.at = now
		return
	}
	b.at += incident.Scale(gained, b.period, b.limit)
}
