package world

import (
	"time"

	"weir/model"
	"weir/sim/draw"
	"weir/sim/incident"
	"weir/sim/provider"
	"weir/sim/workload"
)

// kind says what an event means.
type kind uint8

const (
	onArrival  kind = iota + 1
	onProvider      // a: provider
	onRefusal       // a: attempt, b: its generation
	onRequeue       // a: request, b: its id
	onTimeout       // a: workload
	onExpiry        // a: workload
	onGate          // a: agent
	onReport        // a: agent
	onAck           // a: agent, b: its boot; told when the report is received
	onLog           // a: message
	onInbox         // a: message, b: agent
	onTick          // a: controller, at its deadline
	onFlush         // a: controller, to broadcast
	onScript        // a: change of the fleet's script, b: 1 at its end
	onSecond        // the books close a second
	onOracle        // the oracle looks again
	onTrickle       // a pause ends, or lets more through
)

// Config is one run.
type Config struct {
	Incident *incident.Incident
	// Seed decides every draw.
	Seed uint64
	// Policy is who decides; see Policies.
	Policy string
	// Params are the parameters in force; nil means the defaults.
	Params *model.Params
	// BooksFrom is when the books open; what came before is warm-up.
	BooksFrom time.Duration
	plan      plan // the oracle's
	// NoCould leaves out the scheduler that Could is reckoned by, which is 0 then.
	NoCould bool
	// Observe is called at the end of every second, nil for none.
	Observe func(Second)
	// Records is called with each record of the log before it is folded, nil for
	// none. The fact is good only during the call.
	Records func(model.Record)
	// Points asks for Result.Series with at most so many points; 0 for none.
	Points int
	// Traces are the files that trace arrivals name.
	Traces map[string]workload.Trace
}

// world is one run's state.
type world struct {
	cfg Config
	inc *incident.Incident
	// policy is who decides.
	policy policy
	seed   draw.Seed
	now    int64
	end    int64
	queue  queue

	providers []service
	sources   *workload.Generator
	arriveAt  int64 // next look at the sources
	agents    []*agent
	requests  pages[request]
	attempts  pages[attempt]
	// turns and lives are by request: turns counts its waits and tries, and
	// both its end, so that what was set for an older one is known.
	turns, lives []uint32
	// patience is when applications give up a try, uses when answers are of no
	// use any more; by workload.
	patience, uses []deadlines
	places         places

	bus bus
	// controllers are the fleet's, or one for each start of a process.
	controllers []*controller
	oracle      *oracle
	config      *model.Config

	book   book
	audit  audit
	digest digest
	events []provider.Event // scratch
}

// service is one provider and when it is next looked at.
type service struct {
	*provider.Provider
	truth *provider.Truth
	wake  int64
}

// Run lives the incident through and returns what became of it. The oracle
// lives it through under several plans, and the best run counts. A run whose
// counts do not add up is an error.
func Run(c Config) (*Result, error) {
	if c.Policy == PolicyOracle {
		return bestOracle(c)
	}
	return live(c)
}

// live is one run.
func live(c Config) (*Result, error) {
	w, err := begin(c)
	if err != nil {
		return nil, err
	}
	r := w.play()
	if err := w.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// begin builds the world at instant 0.
func begin(c Config) (*world, error) {
	w := &world{
		cfg: c, inc: c.Incident, seed: draw.Seed(c.Seed),
		end: int64(c.Incident.Duration),
	}
	if err := w.build(); err != nil {
		return nil, err
	}
	return w, nil
}

// play lives until the end.
func (w *world) play() *Result {
	for !w.queue.empty() {
		e := w.queue.pop()
		if e.at > w.end {
			break
		}
		w.now = e.at
		w.handle(&e)
	}
	w.now = w.end
	return w.result()
}

func (w *world) at(at int64, k kind, a, b uint64) {
	w.queue.push(max(at, w.now), k, a, b)
}

// happened counts what happens in the world: one thing, however many looks the
// kernel takes for it, or takes for many at once.
func (w *world) happened(k kind, a, b uint64) {
	w.book.events++
	w.digest.add(w.now, k, a, b)
}

func (w *world) handle(e *event) {
	switch e.kind {
	case onArrival:
		if e.at == w.arriveAt { // else an earlier look took its place
			w.arriveAt = workload.Never
			w.arrive()
		}
	case onProvider:
		if p := &w.providers[e.a]; e.at == p.wake {
			p.wake = provider.Never
			w.serve(int(e.a))
		}
	case onRefusal:
		w.refused(uint32(e.a), uint32(e.b))
	case onRequeue:
		w.requeue(uint32(e.a), e.b)
	case onTimeout:
		w.timeouts(int(e.a), e.at)
	case onExpiry:
		w.expiries(int(e.a), e.at)
	case onGate:
		w.agents[e.a].wakeGate(e.at)
	case onReport:
		w.agents[e.a].wakeReport(e.at)
	case onLog:
		w.happened(onLog, e.a, 0)
		w.bus.receive(uint32(e.a))
	case onInbox:
		w.happened(onInbox, e.a, e.b)
		w.bus.deliver(uint32(e.a), int(e.b))
	case onTick:
		w.controllers[e.a].tick(e.at)
	case onFlush:
		w.happened(onFlush, e.a, 0)
		w.controllers[e.a].flush()
	case onScript:
		w.happened(onScript, e.a, e.b)
		w.script(int(e.a), e.b == 1)
	case onSecond:
		w.happened(onSecond, 0, 0)
		w.second()
	case onTrickle:
		w.happened(onTrickle, 0, 0)
		w.trickle()
	case onOracle:
		w.happened(onOracle, 0, 0)
		w.oracle.pump = false
		w.oracle.dispatch()
	case onAck: // see bus.receive
	}
}

// serve lets a provider catch up with now and hands out what it says.
func (w *world) serve(i int) {
	p := &w.providers[i]
	w.events = p.Advance(w.now, w.events[:0])
	for k := range w.events {
		w.happened(onProvider, uint64(i), w.events[k].ID)
		w.answered(&w.events[k])
	}
	w.watch(i)
}

// watch sets the next look at a provider.
func (w *world) watch(i int) {
	p := &w.providers[i]
	if wake := max(p.NextWake(), w.now); wake < p.wake {
		p.wake = wake
		w.at(wake, onProvider, uint64(i), 0)
	}
}

// digest is FNV-1a over all that happened: two runs with the same digest lived
// through the same in the same order.
type digest uint64

func (d *digest) add(at int64, k kind, a, b uint64) {
	h := uint64(*d)
	for _, v := range [4]uint64{uint64(at), uint64(k), a, b} {
		h = (h ^ v) * 0x100000001b3
	}
	*d = digest(h)
}
