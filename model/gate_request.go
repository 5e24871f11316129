package model

// gateState is where a request stands.
type gateState uint8

const (
	gateFree     gateState = iota
	gateQueued             // in a lane
	gateParked             // between two attempts, until notBefore
	gateRunning            // an attempt is in flight
	gateAnswered           // its last reply waits to be polled
)

// gateRequest is one request from its Ask to its end. It is used again.
type gateRequest struct {
	// What a search through a lane reads of every request comes first, since
	// each is another line of memory.

	// rank is the priority raised by waiting, level the tiers open beyond
	// the first.
	rank, level uint8
	state       gateState
	// unseen is set while a reply for it waits to be polled.
	unseen        bool
	priority      Priority
	core          bool
	tries, broken uint8
	deadline      Nanos
	number        uint64 // order of arrival, unique
	tokens        Tokens
	node          queueNode
	lastClass     Class
	tiers         uint32
	// late is the set of tiers that it was found to have too little time for.
	late  uint32
	index uint32
	// gen numbers the handles given out, so that an old one fits nothing.
	gen    uint32
	ticket Ticket
	permit uint64

	id     uint64
	route  *gateRoute
	tenant string
	owner  *gateTenant
	// capability is kept for a route that is configured anew.
	capability string
	// passed is the tokens of those that passed it.
	passed  Tokens
	arrived Nanos

	since      Nanos // when it began to wait
	notBefore  Nanos
	avoid      *gateChannel
	avoidUntil Nanos
	timer      int // place in the timers, from 1; 0 for none
	firstSent  Nanos

	at gateAttempt
}

// gateAttempt is the attempt in flight of a request.
type gateAttempt struct {
	channel *gateChannel
	// pools are what it was reserved against, whatever is configured since.
	pools        []*gatePool
	tier         uint8
	degraded     bool
	observed     bool
	accepted     bool
	started      Nanos
	queued       Nanos
	firstToken   Nanos
	epoch, probe uint64
	// prev and next link the channel's attempts in the order they started.
	prev, next *gateRequest
}

// gateRequests gives out requests and finds them by handle.
type gateRequests struct {
	all    []*gateRequest
	free   []*gateRequest
	number uint64
}

func (s *gateRequests) take() *gateRequest {
	var r *gateRequest
	if n := len(s.free); n > 0 {
		r, s.free = s.free[n-1], s.free[:n-1]
	} else {
		r = &gateRequest{index: uint32(len(s.all))}
		s.all = append(s.all, r)
	}
	s.number++
	r.number = s.number
	return r
}

func (s *gateRequests) put(r *gateRequest) {
	*r = gateRequest{index: r.index, gen: r.gen + 1}
	s.free = append(s.free, r)
}

// handle returns a new handle of r; those before fit nothing any more.
func (r *gateRequest) handle() uint64 {
	r.gen++
	return uint64(r.gen)<<32 | uint64(r.index) + 1
}

// at returns the request a handle may belong to, or nil.
func (s *gateRequests) at(handle uint64) *gateRequest {
	i := handle&0xffff_ffff - 1
	if i >= uint64(len(s.all)) {
		return nil
	}
	return s.all[i]
}

// running returns the request whose attempt in flight permit names, or nil.
func (s *gateRequests) running(permit uint64) *gateRequest {
	if r := s.at(permit); r != nil && r.state == gateRunning && r.permit == permit {
		return r
	}
	return nil
}

// waiting returns the request that t names and that was not told its end, or nil.
func (s *gateRequests) waiting(t Ticket) *gateRequest {
	r := s.at(uint64(t))
	if r == nil || r.ticket != t || r.state == gateFree {
		return nil
	}
	if r.state == gateRunning && !r.unseen {
		return nil
	}
	return r
}
