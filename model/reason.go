package model

// Rule names the law that decided.
type Rule string

// The rules that decisions name.
const (
	RuleWindowCut     Rule = "window.cut"
	RuleWindowStale   Rule = "window.stale"
	RuleLatencyCut    Rule = "latency.cut"
	RuleLatencyRebase Rule = "latency.rebase"
	RuleLatencyRaise  Rule = "latency.raise"
	RuleWeight        Rule = "weight.decay"
	RuleBreakerOpen   Rule = "breaker.open"
	RuleBreakerHalf   Rule = "breaker.half_open"
	RuleBreakerClose  Rule = "breaker.close"
	RuleProbe         Rule = "breaker.probe"
	RuleHold          Rule = "budget.hold"
	RuleDay           Rule = "budget.day"
	RuleTenant        Rule = "tenant.day"
	RuleMember        Rule = "agent"
	RuleConfig        Rule = "config"
	RuleParams        Rule = "params"
	RuleCommand       Rule = "command"
	RuleTerm          Rule = "term"
	RuleRebase        Rule = "rebase"
)

// Decision is one change and its reason: rule, numbers, the record that
// caused it. It holds no state; the same log gives the same decisions.
type Decision struct {
	// Seq is the record that caused it, At the log time.
	Seq uint64
	At  Nanos
	// Channel and Agent are whom it concerns, where it concerns one.
	Channel, Agent string
	Rule           Rule
	// Before and After are the number that changed: milli-slots for the
	// window, ppm for the weight, 0 where there is none.
	Before, After int64
	// Epoch is the channel's epoch afterwards.
	Epoch uint64
	// Reason says it in words.
	Reason string
	// Laws and Params identify what decided.
	Laws   uint32
	Params string
}

// Effects is what folding records asks of the shell: whom to tell and what
// was decided. Entries are in the order they arose, without repetition.
type Effects struct {
	// Limits are channels and days to broadcast, Leases agents to tell. A day's
	// name has a slash, a channel's has none.
	Limits []string
	Leases []string
	// Now is set when the broadcast must not wait for the next tick.
	Now bool
	// Config and Term are set when those outputs changed.
	Config, Term bool
	Decisions    []Decision

	seenLimits, seenLeases map[string]struct{}
}

// said is n as a reason has it: to about three digits, and no finer than people
// ask for.
func said(n Nanos) Nanos {
	unit := Nanos(1)
	for unit < Second && n >= 1000*unit {
		unit *= 10
	}
	return Nanos(n.Duration().Round(unit.Duration()))
}

// Reset empties fx and keeps its memory.
func (fx *Effects) Reset() {
	clear(fx.seenLimits)
	clear(fx.seenLeases)
	*fx = Effects{
		Limits: fx.Limits[:0], Leases: fx.Leases[:0], Decisions: fx.Decisions[:0],
		seenLimits: fx.seenLimits, seenLeases: fx.seenLeases,
	}
}

// Empty reports whether there is nothing to do.
func (fx *Effects) Empty() bool {
	return len(fx.Limits) == 0 && len(fx.Leases) == 0 && len(fx.Decisions) == 0 && !fx.Config && !fx.Term
}

func (fx *Effects) limit(channel string) {
	if _, ok := fx.seenLimits[channel]; ok {
		return
	}
	if fx.seenLimits == nil {
		fx.seenLimits = map[string]struct{}{}
	}
	fx.seenLimits[channel] = struct{}{}
	fx.Limits = append(fx.Limits, channel)
}

func (fx *Effects) lease(agent string) {
	if _, ok := fx.seenLeases[agent]; ok {
		return
	}
	if fx.seenLeases == nil {
		fx.seenLeases = map[string]struct{}{}
	}
	fx.seenLeases[agent] = struct{}{}
	fx.Leases = append(fx.Leases, agent)
}
