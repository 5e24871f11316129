package calibrate

import (
	"cmp"
	"slices"

	"weir/model"
)

// MaxCalls bounds the calls that are kept; one takes 80 bytes.
const MaxCalls = 2_000_000

// maxNames bounds the channels and tenants that are told apart; more are one.
const maxNames = 64

// Others is the name of what is beyond the names that are told apart.
const Others = "others"

// Call is one attempt as a log has it.
type Call struct {
	// Sent is when it was sent, in Unix nanoseconds, Took the time to its end.
	Sent, Took model.Nanos
	// Queued is how long its request had waited before, where the log says so.
	Queued model.Nanos
	// Request is the same for all attempts of one request, 0 when unknown.
	Request uint64
	// Try is the attempt's number within the request, from 1; 0 when unknown.
	Try int
	// Route is what the client asked for; the channel when unknown.
	Channel, Route, Tenant string
	Input, Output          int64 // tokens
	Class                  model.Class
	Status                 int
	// Code is the provider's own, empty for none.
	Code string
	// Dimension is what a refusal said was used up.
	Dimension model.Dimension
	// RetryAfter is the wait the provider named, negative for none.
	RetryAfter model.Nanos
}

// call is a kept one.
type call struct {
	sent, took, queued model.Nanos
	request            uint64
	input, output      int64
	retryAfter         model.Nanos
	status, code       uint16 // code is an index
	channel, route     uint8
	tenant             uint8
	try, class, dim    uint8
}

func (c *call) end() model.Nanos { return c.sent + c.took }

// ok reports whether the provider took the call: it did work for it.
func (c *call) accepted() bool {
	return model.Class(c.class) == model.ClassOK || model.Class(c.class) == model.ClassCanceled
}

// vague reports a server error that names no cause.
func (c *call) vague() bool {
	return model.Class(c.class) == model.ClassOverloaded && c.status >= 500 && c.status != 503 && c.status != 529
}

// Log collects calls.
type Log struct {
	calls                          []call
	channels, routes, names, codes names
	// LeftOut counts calls beyond MaxCalls, Odd those that cannot be.
	LeftOut, Odd uint64
	sorted       bool
}

// names gives strings small numbers.
type names struct {
	list  []string
	index map[string]int
	most  int
}

func (n *names) of(s string) int {
	if i, ok := n.index[s]; ok {
		return i
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	if len(n.list) >= max(n.most, maxNames)-1 {
		s = Others
		if i, ok := n.index[s]; ok {
			return i
		}
	}
	if len(s) > 128 {
		s = s[:128]
		if i, ok := n.index[s]; ok {
			return i
		}
	}
	n.list = append(n.list, s)
	n.index[s] = len(n.list) - 1
	return len(n.list) - 1
}

// What is larger than any call is nonsense.
const (
	maxTook   = 24 * model.Hour
	maxTokens = 100_000_000
	maxTime   = model.Nanos(9_000_000_000) * model.Second
)

// Add keeps a call.
func (l *Log) Add(c *Call) {
	if c.Sent < 0 || c.Sent > maxTime || c.Took < 0 || c.Took > maxTook || c.Input < 0 || c.Input > maxTokens ||
		c.Output < 0 || c.Output > maxTokens || c.Class == 0 || int(c.Class) >= model.NumClasses {
		l.Odd++
		return
	}
	if len(l.calls) >= MaxCalls {
		l.LeftOut++
		return
	}
	l.codes.most = 1000
	l.sorted = false
	l.calls = append(l.calls, call{
		sent: c.Sent, took: c.Took, queued: min(max(c.Queued, 0), maxTook), request: c.Request, input: c.Input, output: c.Output,
		retryAfter: c.RetryAfter, status: uint16(min(max(c.Status, 0), 65535)), code: uint16(l.codes.of(c.Code)),
		channel: uint8(l.channels.of(c.Channel)), route: uint8(l.routes.of(cmp.Or(c.Route, c.Channel))), tenant: uint8(l.names.of(c.Tenant)), try: uint8(min(max(c.Try, 0), 255)),
		class: uint8(c.Class), dim: uint8(c.Dimension),
	})
}

// Len returns how many calls are kept.
func (l *Log) Len() int { return len(l.calls) }

// sort orders the calls by their sending.
func (l *Log) sort() {
	if l.sorted {
		return
	}
	slices.SortStableFunc(l.calls, func(a, b call) int { return cmp.Compare(a.sent, b.sent) })
	l.sorted = true
}

// of returns the calls of one channel, in order.
func (l *Log) of(channel int) []call {
	l.sort()
	var mine []call
	for i := range l.calls {
		if int(l.calls[i].channel) == channel {
			mine = append(mine, l.calls[i])
		}
	}
	return mine
}
