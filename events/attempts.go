package events

import (
	"encoding/binary"
	"math"
	"slices"

	"weir/model"
)

// Bounds of one report.
const (
	maxChannels = 4096
	maxPools    = 8192
	maxAttempts = 4096
	maxHints    = 8
)

// Bits of the two bytes that begin an attempt after its class. Most fields are
// those of the attempt before it or the usual ones, and then not written.
const (
	hasChannel = 1 << iota // differs from the attempt before
	hasRoute               // differs
	hasTier                // differs
	hasTenant              // differs
	hasRule                // differs
	hasStatus              // differs; 200 before the first
	hasEpoch               // differs
	hasTry                 // not 1
	hasQueued              // not 0
	hasFirst               // not 0
	hasCached              // not 0
	wideID                 // the id has eight bytes, its difference would have more
	hasMore                // a byte with the bits below follows
	unused                 // this bit and those above it
)

// Bits of the third byte, for what is seldom.
const (
	moreCode = 1 << iota
	moreRetry
	moreHints
	moreProbe
	moreScope
	moreUnused
)

// Bits of an attempt's first byte beside its class.
const (
	classBits     = 0x0f
	priorityShift = 4
	usageKnown    = 1 << 6
	degraded      = 1 << 7
)

// before stands before the first attempt of a report.
func before() model.Attempt { return model.Attempt{Status: 200} }

func encodeAttempts(b []byte, a *model.Attempts) []byte {
	start := len(b)
	b, at := open(append(b, version, byte(model.KindAttempts)))
	b = appendSource(b, &a.Source)
	b = appendString(b, a.Version, maxString)
	b = append(b, byte(a.Mode))
	b = shut(appendBool(b, a.Leaving), at)

	b, at = open(b)
	b = appendUvarint(b, uint64(len(a.Channels)))
	for i := range a.Channels {
		b = appendChannel(b, &a.Channels[i])
	}
	b = shut(b, at)

	b, at = open(b)
	b = shut(appendPools(b, a.Pools), at)

	b, at = open(b)
	b = appendUvarint(b, uint64(len(a.Attempts)))
	first := before()
	last := &first
	var t table
	for i := range a.Attempts {
		b = t.attempt(b, &a.Attempts[i], last)
		last = &a.Attempts[i]
	}
	return appendNext(shut(b, at), start, a.Pools)
}

// appendNext appends the section with what the next request of each pool
// needs, if there is anything to say; the entry begins at start.
func appendNext(b []byte, start int, pools []model.PoolReport) []byte {
	if !slices.ContainsFunc(pools, func(p model.PoolReport) bool { return p.Next > 0 }) {
		return b
	}
	added(b, start, 1)
	b, at := open(b)
	for i := range pools {
		b = appendCount(b, pools[i].Next)
	}
	return shut(b, at)
}

func readNext(r *reader, pools []model.PoolReport) {
	if !r.has(1) {
		return
	}
	r.open()
	for i := range pools {
		pools[i].Next = model.Tokens(r.count())
	}
	r.shut()
}

func appendSource(b []byte, s *model.Source) []byte {
	b = appendString(b, s.Agent, MaxName)
	b = appendUvarint(b, s.Boot)
	b = appendUvarint(b, s.Seq)
	return appendUvarint(b, s.Base)
}

func appendChannel(b []byte, c *model.ChannelReport) []byte {
	b = appendString(b, c.Channel, maxString)
	b = appendUvarint(b, uint64(c.InFlight))
	b = appendUvarint(b, uint64(c.Held))
	b = appendUvarint(b, uint64(c.Accepted))
	b = appendUvarint(b, uint64(c.Queued))
	b = appendUvarint(b, uint64(c.Urgent))
	b = appendCount(b, c.WaitingTokens)
	b = appendUvarint(b, c.Applied)
	return appendUvarint(b, c.WouldRefuse)
}

func appendPools(b []byte, pools []model.PoolReport) []byte {
	b = appendUvarint(b, uint64(len(pools)))
	for i := range pools {
		p := &pools[i]
		b = appendString(b, p.Pool, maxString)
		b = appendCount(b, p.UsedRequests)
		b = appendCount(b, p.UsedTokens)
		b = appendCount(b, p.WaitingRequests)
		b = appendCount(b, p.WaitingTokens)
		b = appendUvarint(b, p.Applied)
	}
	return b
}

// attempt appends a, given the attempt before it.
func (t *table) attempt(b []byte, a, last *model.Attempt) []byte {
	const most = 160 // bytes without strings and hints, so that most appends have room
	b = slices.Grow(b, most)
	id := zigzag(int64(a.Request - last.Request))
	has, more := fields(a, last, id)
	b = append(b, firstByte(a), byte(has), byte(has>>8))
	if has&hasMore != 0 {
		b = append(b, more)
	}
	if has&wideID != 0 {
		b = binary.LittleEndian.AppendUint64(b, a.Request)
	} else {
		b = appendUvarint(b, id)
	}
	b = appendSigned(b, int64(max(last.Age, 0)-max(a.Age, 0)))
	b = appendCount(b, a.Took)
	b = appendCount(b, a.Reserved)
	b = appendCount(b, a.In)
	b = appendCount(b, a.Out)
	b = t.changed(b, a, has)
	if more != 0 {
		b = t.seldom(b, a, more)
	}
	return b
}

func firstByte(a *model.Attempt) byte {
	c := byte(a.Class)&classBits | byte(a.Priority)&3<<priorityShift
	if a.UsageKnown {
		c |= usageKnown
	}
	if a.Degraded {
		c |= degraded
	}
	return c
}

// fields says which fields are written.
func fields(a, last *model.Attempt, id uint64) (has uint16, more byte) {
	set := func(on bool, bit uint16) {
		if on {
			has |= bit
		}
	}
	set(a.Channel != last.Channel, hasChannel)
	set(a.Route != last.Route, hasRoute)
	set(a.Tier != last.Tier, hasTier)
	set(a.Tenant != last.Tenant, hasTenant)
	set(a.Rule != last.Rule, hasRule)
	set(a.Status != last.Status, hasStatus)
	set(a.Epoch != last.Epoch, hasEpoch)
	set(a.Try != 1, hasTry)
	set(a.Queued > 0, hasQueued)
	set(a.FirstToken > 0, hasFirst)
	set(a.Cached > 0, hasCached)
	set(id>>narrow != 0, wideID)
	more = seldomFields(a)
	set(more != 0, hasMore)
	return has, more
}

func seldomFields(a *model.Attempt) (more byte) {
	if a.Code != "" {
		more |= moreCode
	}
	if a.RetryAfter >= 0 {
		more |= moreRetry
	}
	if len(a.Hints) > 0 {
		more |= moreHints
	}
	if a.Probe != 0 {
		more |= moreProbe
	}
	if a.Scope != 0 {
		more |= moreScope
	}
	return more
}

// changed appends the fields of a that has names, in the order of their bits.
func (t *table) changed(b []byte, a *model.Attempt, has uint16) []byte {
	if has&hasChannel != 0 {
		b = appendUvarint(b, uint64(a.Channel))
	}
	if has&hasRoute != 0 {
		b = t.ref(b, a.Route, maxString)
	}
	if has&hasTier != 0 {
		b = append(b, a.Tier)
	}
	if has&hasTenant != 0 {
		b = t.ref(b, a.Tenant, maxString)
	}
	if has&hasRule != 0 {
		b = t.ref(b, a.Rule, maxString)
	}
	if has&hasStatus != 0 {
		b = appendUvarint(b, uint64(a.Status))
	}
	if has&hasEpoch != 0 {
		b = appendUvarint(b, a.Epoch)
	}
	if has&hasTry != 0 {
		b = append(b, a.Try)
	}
	if has&hasQueued != 0 {
		b = appendCount(b, a.Queued)
	}
	if has&hasFirst != 0 {
		b = appendCount(b, a.FirstToken)
	}
	if has&hasCached != 0 {
		b = appendCount(b, a.Cached)
	}
	return b
}

func (t *table) seldom(b []byte, a *model.Attempt, more byte) []byte {
	if more&moreCode != 0 {
		b = t.ref(b, a.Code, maxCode)
	}
	if more&moreRetry != 0 {
		b = appendCount(b, a.RetryAfter)
	}
	if more&moreHints != 0 {
		hints := a.Hints[:min(len(a.Hints), maxHints)]
		b = append(b, byte(len(hints)))
		for _, h := range hints {
			b = append(b, byte(h.Dimension))
			b = appendOptional(b, h.Limit)
			b = appendOptional(b, h.Remaining)
			b = appendOptional(b, h.Reset)
		}
	}
	if more&moreProbe != 0 {
		b = appendUvarint(b, a.Probe)
	}
	if more&moreScope != 0 {
		b = append(b, byte(a.Scope))
	}
	return b
}

// spare is the memory of the report decoded last.
type spare struct {
	report   model.Attempts
	channels []model.ChannelReport
	pools    []model.PoolReport
	attempts []model.Attempt
	hints    []model.LimitHint
}

func (d *Decoder) readAttempts() model.Fact {
	r := &d.r
	if d.spare == nil {
		d.spare = new(spare)
	}
	s := d.spare
	a := &s.report
	r.open()
	*a = model.Attempts{Source: readSource(r)}
	a.Span = 1
	a.Version = r.str("version", maxString)
	a.Mode = model.Mode(r.bounded("mode", uint64(model.ModeObserve)))
	a.Leaving = r.boolean("leaving")
	r.shut()

	r.open()
	a.Channels = list(&s.channels, r.length("channels", maxChannels, 9))
	for i := range a.Channels {
		readChannel(r, &a.Channels[i])
	}
	r.shut()

	r.open()
	a.Pools = list(&s.pools, r.length("pools", maxPools, 6))
	readPools(r, a.Pools)
	r.shut()

	r.open()
	a.Attempts = list(&s.attempts, r.length("attempts", maxAttempts, 9))
	s.hints = s.hints[:0]
	first := before()
	last := &first
	for i := range a.Attempts {
		s.readAttempt(r, &a.Attempts[i], last, len(a.Channels))
		last = &a.Attempts[i]
		if r.err != nil {
			return nil
		}
	}
	r.shut()
	readNext(r, a.Pools)
	return a
}

// readSource reads who speaks. Span is left to the caller.
func readSource(r *reader) model.Source {
	at := r.off
	s := model.Source{
		Agent: r.str("agent", MaxName),
		Boot:  r.uvarint(),
		Seq:   r.bounded("report number", math.MaxInt64),
		Base:  r.bounded("attempts before", math.MaxInt64),
	}
	if r.err != nil {
		return s
	}
	if err := CheckAgent(s.Agent); err != nil {
		r.off = at
		r.failf("%v", err)
	} else if s.Seq == 0 {
		r.failf("report number is 0")
	}
	return s
}

func readChannel(r *reader, c *model.ChannelReport) {
	*c = model.ChannelReport{
		Channel:       r.str("channel", maxString),
		InFlight:      uint32(r.bounded("in flight", math.MaxUint32)),
		Held:          uint32(r.bounded("held", math.MaxUint32)),
		Accepted:      uint32(r.bounded("accepted", math.MaxUint32)),
		Queued:        uint32(r.bounded("queued", math.MaxUint32)),
		Urgent:        uint32(r.bounded("urgent", math.MaxUint32)),
		WaitingTokens: model.Tokens(r.count()),
		Applied:       r.uvarint(),
		WouldRefuse:   r.uvarint(),
	}
}

func readPools(r *reader, pools []model.PoolReport) {
	for i := range pools {
		pools[i] = model.PoolReport{
			Pool:            r.str("pool", maxString),
			UsedRequests:    r.count(),
			UsedTokens:      model.Tokens(r.count()),
			WaitingRequests: r.count(),
			WaitingTokens:   model.Tokens(r.count()),
			Applied:         r.uvarint(),
		}
	}
}

// readAttempt reads an attempt into a, given the one before it and how many
// channels the report has.
func (s *spare) readAttempt(r *reader, a, last *model.Attempt, channels int) {
	*a = model.Attempt{RetryAfter: -1, Try: 1}
	first := r.octet()
	a.Class = model.Class(first & classBits)
	a.Priority = model.Priority(first >> priorityShift & 3)
	a.UsageKnown = first&usageKnown != 0
	a.Degraded = first&degraded != 0
	has := uint16(r.octet()) | uint16(r.octet())<<8
	if a.Class == 0 || int(a.Class) >= model.NumClasses || int(a.Priority) >= model.NumPriorities || has >= unused {
		r.failf("attempt of class %d, priority %d, fields %#x", a.Class, a.Priority, has)
		return
	}
	var more byte
	if has&hasMore != 0 {
		more = r.octet()
	}
	if has&wideID != 0 {
		a.Request = r.wide()
	} else {
		a.Request = last.Request + uint64(r.signed())
	}
	a.Age = last.Age - model.Nanos(r.signed())
	a.Took = model.Nanos(r.count())
	a.Reserved = model.Tokens(r.count())
	a.In = model.Tokens(r.count())
	a.Out = model.Tokens(r.count())
	readChanged(r, a, last, has)
	if more != 0 {
		s.readSeldom(r, a, more)
	}
	if a.Age < 0 || int(a.Channel) >= channels {
		r.failf("attempt of age %d on channel %d of %d", int64(a.Age), a.Channel, channels)
	}
}

func readChanged(r *reader, a, last *model.Attempt, has uint16) {
	a.Channel, a.Route, a.Tier, a.Tenant = last.Channel, last.Route, last.Tier, last.Tenant
	a.Rule, a.Status, a.Epoch = last.Rule, last.Status, last.Epoch
	if has&hasChannel != 0 {
		a.Channel = uint16(r.bounded("channel", maxChannels))
	}
	if has&hasRoute != 0 {
		a.Route = r.ref("route", maxString)
	}
	if has&hasTier != 0 {
		a.Tier = r.octet()
	}
	if has&hasTenant != 0 {
		a.Tenant = r.ref("tenant", maxString)
	}
	if has&hasRule != 0 {
		a.Rule = r.ref("rule", maxString)
	}
	if has&hasStatus != 0 {
		a.Status = uint16(r.bounded("status", math.MaxUint16))
	}
	if has&hasEpoch != 0 {
		a.Epoch = r.uvarint()
	}
	if has&hasTry != 0 {
		a.Try = r.octet()
	}
	if has&hasQueued != 0 {
		a.Queued = model.Nanos(r.count())
	}
	if has&hasFirst != 0 {
		a.FirstToken = model.Nanos(r.count())
	}
	if has&hasCached != 0 {
		a.Cached = model.Tokens(r.count())
	}
}

func (s *spare) readSeldom(r *reader, a *model.Attempt, more byte) {
	if more >= moreUnused {
		r.failf("attempt has unknown fields %#x", more)
		return
	}
	if more&moreCode != 0 {
		a.Code = r.ref("code", maxCode)
	}
	if more&moreRetry != 0 {
		a.RetryAfter = model.Nanos(r.count())
	}
	if more&moreHints != 0 {
		a.Hints = s.readHints(r)
	}
	if more&moreProbe != 0 {
		a.Probe = r.uvarint()
	}
	if more&moreScope != 0 {
		a.Scope = model.Scope(r.bounded("scope", uint64(model.ScopeGroup)))
	}
}

// readHints reads the hints of one attempt into memory shared by the report.
func (s *spare) readHints(r *reader) []model.LimitHint {
	n := r.length("hints", maxHints, 4)
	from := len(s.hints)
	for range n {
		s.hints = append(s.hints, model.LimitHint{
			Dimension: model.Dimension(r.bounded("dimension", uint64(model.DimCredits))),
			Limit:     r.optional(),
			Remaining: r.optional(),
			Reset:     model.Nanos(r.optional()),
		})
	}
	if n == 0 {
		return nil
	}
	return s.hints[from:len(s.hints):len(s.hints)]
}

// wide reads eight bytes.
func (r *reader) wide() uint64 {
	if len(r.data)-r.off < 8 {
		r.failf("cut short")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.data[r.off:])
	r.off += 8
	return v
}
