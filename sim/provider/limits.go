package provider

import (
	"weir/sim/draw"
	"weir/sim/incident"
)

// limits are all limits that count over time.
type limits struct {
	rpm, tpm, inputTPM, outputTPM meter
	requestsPerDay, tokensPerDay  meter
	tokenCharge, outputCharge     incident.Charge
	none                          bool // of them is set
}

func newLimits(law *incident.Law, seed draw.Seed, name uint64) limits {
	start := func(r incident.Rate, n uint64) meter {
		return newMeter(r, seed.Below(periodOf(r), draw.WindowPhase, name, n))
	}
	l := limits{
		rpm: start(law.RPM, 0), tpm: start(law.TPM, 1),
		inputTPM: start(law.InputTPM, 1), outputTPM: start(law.OutputTPM, 1),
		requestsPerDay: newDaily(law.RequestsPerDay, law.DayElapsed),
		tokensPerDay:   newDaily(law.TokensPerDay, law.DayElapsed),
	}
	l.charges(law)
	return l
}

func (l *limits) charges(law *incident.Law) {
	l.tokenCharge, l.outputCharge = law.TPM.Charge, law.OutputTPM.Charge
	l.none = true
	for _, m := range [...]*meter{&l.rpm, &l.tpm, &l.inputTPM, &l.outputTPM, &l.requestsPerDay, &l.tokensPerDay} {
		l.none = l.none && m.limit < 0
	}
}

// set follows the law.
func (l *limits) set(now int64, law *incident.Law) {
	l.rpm.set(now, law.RPM)
	l.tpm.set(now, law.TPM)
	l.inputTPM.set(now, law.InputTPM)
	l.outputTPM.set(now, law.OutputTPM)
	l.requestsPerDay.setDaily(now, law.RequestsPerDay)
	l.tokensPerDay.setDaily(now, law.TokensPerDay)
	l.charges(law)
}

// cost is what a call costs each meter.
type cost struct{ tokens, input, output, used int64 }

func (l *limits) cost(c *Call) cost {
	asked := func(charge incident.Charge) int64 {
		if charge == incident.ChargeMaxTokens && c.MaxTokens > 0 {
			return c.MaxTokens
		}
		return c.Output
	}
	return cost{
		tokens: c.Input + asked(l.tokenCharge), input: c.Input,
		output: asked(l.outputCharge), used: c.Input + c.Output,
	}
}

// wait is how long until a cost fits every limit, and which limit is last to
// let it through. Never with ReasonTooLarge means that no wait helps.
func (l *limits) wait(now int64, c cost) (int64, incident.Reason) {
	if l.none {
		return 0, ""
	}
	longest, reason := int64(0), incident.Reason("")
	check := func(m *meter, amount int64, r incident.Reason) {
		w := m.wait(now, amount)
		if w == Never && m.capacity() > 0 && amount > m.capacity() {
			r = incident.ReasonTooLarge
		}
		if w > longest || r == incident.ReasonTooLarge {
			longest, reason = w, r
		}
	}
	check(&l.rpm, 1, incident.ReasonRequests)
	check(&l.tpm, c.tokens, incident.ReasonTokens)
	check(&l.inputTPM, c.input, incident.ReasonTokens)
	check(&l.outputTPM, c.output, incident.ReasonTokens)
	check(&l.requestsPerDay, 1, incident.ReasonDay)
	check(&l.tokensPerDay, c.used, incident.ReasonDay)
	return longest, reason
}

// take charges a call.
func (l *limits) take(now int64, c cost) {
	if l.none {
		return
	}
	l.charge(now, c)
	l.requestsPerDay.take(now, 1)
	l.tokensPerDay.take(now, c.used)
}

// charge counts a call against the per-minute limits.
func (l *limits) charge(now int64, c cost) {
	l.rpm.take(now, 1)
	l.tpm.take(now, c.tokens)
	l.inputTPM.take(now, c.input)
	l.outputTPM.take(now, c.output)
}

// headers shows the limits as answers do.
func (l *limits) headers(now int64) Headers {
	return Headers{Sent: true, Requests: l.rpm.figure(now), Tokens: l.tpm.figure(now)}
}

// ban is a block for too many refused calls.
type ban struct {
	until  int64
	length int64   // of the latest, 0 for none yet
	recent []int64 // instants of the latest refusals, a ring
	next   int
}

// blocked reports how much longer the ban lasts; 0 for none.
func (b *ban) blocked(now int64) int64 { return max(0, b.until-now) }

// refused counts one refused call and bans when it was one too many.
func (b *ban) refused(now int64, law incident.Ban) {
	n := int(law.Refusals)
	if n <= 0 || b.blocked(now) > 0 {
		return
	}
	if len(b.recent) != n {
		b.recent, b.next = make([]int64, n), 0
		for i := range b.recent {
			b.recent[i] = -1
		}
	}
	b.recent[b.next] = now
	b.next = (b.next + 1) % n
	oldest := b.recent[b.next]
	if oldest >= 0 && now-oldest <= int64(law.In) {
		b.length = b.widened(now, law)
		b.until = now + b.length
		b.recent = nil
	}
}

// widened is how long a ban that begins now lasts.
func (b *ban) widened(now int64, law incident.Ban) int64 {
	if b.length == 0 || law.Widen <= incident.PPM || law.Forget > 0 && now-b.until > int64(law.Forget) {
		return int64(law.For)
	}
	length := min(incident.Scale(b.length, law.Widen, incident.PPM), Never/4)
	if law.Most > 0 {
		length = min(length, int64(law.Most))
	}
	return length
}
