package model

import "slices"

// LawVersion numbers the laws of this package. Decisions carry it; a change
// that would fold an old log to another state raises it.
const LawVersion = 1

// Fleet is the state of one fleet: a pure fold of its log. It is used by one
// goroutine. Apply changes it; everything else reads.
type Fleet struct {
	// now is log time, last the newest record's timestamp, seq its place.
	now, last Nanos
	// wall is what the log's clock says as far as that is believed, ahead since
	// when in log time its timestamps are ahead of that, and by how much; see
	// moveWall.
	wall, ahead, aheadBy Nanos
	seq                  uint64
	started              bool

	term       uint64
	controller string
	laws       uint32
	// noRaise is until when no claim rises: after a rebase or a change of
	// law version what agents were granted is not known for sure.
	noRaise Nanos

	config    *Config
	configSeq uint64
	params    ParamSet
	paramsSeq uint64
	hash      string // of params; not state
	// guard watches the newest push, nil when nothing does.
	guard *guard

	channels []*channel // sorted by name
	pools    []*pool    // sorted by name
	members  []*member  // sorted by agent
	days     []*day     // sorted by name
	counters Counters

	// What follows is derived and not part of the state.

	// byAgent finds members, near is the place of the channel found last.
	byAgent map[string]*member
	near    int
	// cell numbers the stretch of time that past sums were last kept in.
	cell Nanos
	// alarm is not later than the next instant at which a deadline of an
	// agent, a breaker or a probe must be looked at.
	alarm Nanos
	// pending are the channels whose wants is set, waiting the pools.
	pending []*channel
	waiting []*pool
	// poolRound counts the changes of pools and of who draws on them.
	poolRound uint64
	// daysSet is set once the days have their limits, dayEnds when the first
	// ends, dayWake the first that limits something.
	daysSet          bool
	dayEnds, dayWake Nanos
	// payer is the tenant whose day was looked for last, pays what was found.
	payer string
	pays  *day
	// batch are the channels of the report being folded.
	batch []*channel
	// dirty are the parts that changed since Clean.
	dirty dirtySet
	// ablated is the law it does without; see Ablate.
	ablated Ablation
}

// heartbeat is the longest time without a record while a leader lives. It
// bounds how late a deadline is seen and how long a standby waits to notice.
const heartbeat = 5 * Second

// maxStep is the most that one record other than a tick or a new term can add
// to log time. The leader ticks every heartbeat, so a larger step is a clock
// that jumped.
const maxStep = 10 * Second

// NewFleet returns the state before the first record, with default parameters
// and nothing configured.
func NewFleet() *Fleet {
	f := &Fleet{
		laws:   LawVersion,
		config: &Config{},
		params: ParamSet{Name: "default", Params: DefaultParams()},
	}
	f.hash = f.params.Params.Hash()
	f.dirty.all()
	return f
}

// Now returns log time.
func (f *Fleet) Now() Nanos { return f.now }

// Seq returns the place of the newest record folded, 0 before the first.
func (f *Fleet) Seq() uint64 { return f.seq }

// LastTime returns the timestamp of the newest record folded.
func (f *Fleet) LastTime() Nanos { return f.last }

// Term returns the newest leader's term, 0 before the first.
func (f *Fleet) Term() uint64 { return f.term }

// Controller returns the newest leader's id.
func (f *Fleet) Controller() string { return f.controller }

// Config returns the configuration in force and the record that brought it.
// The caller must not change it.
func (f *Fleet) Config() (*Config, uint64) { return f.config, f.configSeq }

// Params returns the parameters in force and the record that brought them.
func (f *Fleet) Params() (ParamSet, uint64) { return f.params, f.paramsSeq }

// Counters returns what was counted.
func (f *Fleet) Counters() Counters { return f.counters }

func (f *Fleet) par() *Params { return &f.params.Params }

// channel finds a channel. What follows each other is mostly of the same one, or
// of the next.
func (f *Fleet) channel(name string) *channel {
	for i := f.near; i < min(f.near+2, len(f.channels)); i++ {
		if f.channels[i].name == name {
			f.near = i
			return f.channels[i]
		}
	}
	i, ok := slices.BinarySearchFunc(f.channels, name, func(c *channel, n string) int { return compare(c.name, n) })
	if !ok {
		return nil
	}
	f.near = i
	return f.channels[i]
}

func (f *Fleet) pool(name string) *pool {
	i, ok := slices.BinarySearchFunc(f.pools, name, func(p *pool, n string) int { return compare(p.name, n) })
	if !ok {
		return nil
	}
	return f.pools[i]
}

func (f *Fleet) member(agent string) *member {
	if len(f.byAgent) != len(f.members) { // they were read
		f.byAgent = make(map[string]*member, len(f.members))
		for _, m := range f.members {
			f.byAgent[m.agent] = m
		}
	}
	return f.byAgent[agent]
}

func (f *Fleet) addMember(agent string) *member {
	i, _ := slices.BinarySearchFunc(f.members, agent, func(m *member, n string) int { return compare(m.agent, n) })
	m := &member{agent: agent, next: 1}
	f.members = slices.Insert(f.members, i, m)
	if f.byAgent == nil {
		f.byAgent = map[string]*member{}
	}
	f.byAgent[agent] = m
	return m
}

// dropMember drops the entry of an agent that holds nothing any more.
func (f *Fleet) dropMember(gone *member) {
	f.members = slices.DeleteFunc(f.members, func(m *member) bool { return m == gone })
	delete(f.byAgent, gone.agent)
	f.dirty.gone("agent/" + gone.agent)
}

// decide records a decision.
func (f *Fleet) decide(fx *Effects, d Decision) {
	d.Seq, d.At, d.Laws, d.Params = f.seq, f.now, LawVersion, f.hash
	if c := f.channel(d.Channel); c != nil && d.Channel != "" {
		if f.canary(c) {
			d.Params = f.guard.hash
		}
		d.Epoch = c.window.Epoch
		c.reason = string(d.Rule) + ": " + d.Reason
		f.announce(c, fx)
	}
	fx.Decisions = append(fx.Decisions, d)
}

// announce asks for a channel to be broadcast.
func (f *Fleet) announce(c *channel, fx *Effects) {
	c.revision = f.seq
	c.toldWindow = c.window.value(f.parOf(c), c.top())
	c.toldWeight = c.weight.value(f.parOf(c), f.now)
	fx.limit(c.name)
	f.dirty.channel(c)
}

// configure takes a configuration: what is new starts, what is gone is
// dropped, what stays keeps its state.
func (f *Fleet) configure(c *Config) {
	c = c.clone()
	c.Normalize()
	c.By, c.Why = "", ""
	f.config = c
	var channels []*channel
	for i := range c.Channels {
		cfg := &c.Channels[i]
		ch := f.channel(cfg.Name)
		if ch == nil {
			ch = newChannel(cfg.Name, f.par(), f.now)
		}
		ch.cfg = cfg
		channels = append(channels, ch)
	}
	for _, old := range f.channels {
		if !slices.ContainsFunc(channels, func(c *channel) bool { return c.name == old.name }) {
			f.dirty.gone("channel/" + old.name)
			f.dirty.gone("past/" + old.name)
		}
	}
	f.channels = channels
	f.setPools()
	f.setDays()
	f.dirty.all()
}

// setPools makes one pool per channel and group with limits per minute, told or
// found.
func (f *Fleet) setPools() {
	var pools []*pool
	add := func(name string, l *Limits) {
		p := f.pool(name)
		if p == nil {
			p = &pool{name: name, at: f.now}
		}
		p.advance(f.now)
		p.limits = l
		p.requests.Told, p.tokens.Told = p.mix.told(l)
		p.refresh(f.parPool(p))
		if p.limited() || p.requests.Since > 0 || p.tokens.Since > 0 {
			pools = append(pools, p)
		}
	}
	for i := range f.config.Channels {
		add(PoolOfChannel(f.config.Channels[i].Name), &f.config.Channels[i].Limits)
	}
	for i := range f.config.Groups {
		add(PoolOfGroup(f.config.Groups[i].Name), &f.config.Groups[i].Limits)
	}
	slices.SortFunc(pools, func(a, b *pool) int { return compare(a.name, b.name) })
	for _, old := range f.pools {
		if !slices.ContainsFunc(pools, func(p *pool) bool { return p.name == old.name }) {
			f.dirty.gone("pool/" + old.name)
		}
	}
	f.pools = pools
	f.poolRound++
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (c *coder) head(f *Fleet) {
	num(c, &f.now)
	num(c, &f.last)
	num(c, &f.seq)
	c.flag(&f.started)
	num(c, &f.term)
	c.str(&f.controller)
	num(c, &f.laws)
	num(c, &f.noRaise)
	num(c, &f.configSeq)
	num(c, &f.paramsSeq)
	for _, n := range []*uint64{
		&f.counters.Records, &f.counters.Attempts, &f.counters.Repeated, &f.counters.Lost,
		&f.counters.Unreadable, &f.counters.Unknown, &f.counters.UnknownChannel,
		&f.counters.DuplicateAgents, &f.counters.TooManyAgents, &f.counters.StaleTerm,
		&f.counters.StaleRefusals, &f.counters.Forgotten, &f.counters.Rebases, &f.counters.BadRebases,
	} {
		num(c, n)
	}
}
