package compare

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/workload"
	"weir/sim/world"
)

// The bounds of what is played live.
const (
	// MostSpeed is how many times faster a script may be played. Service
	// times and timeouts stay real, so a faster script is another one.
	MostSpeed  = 10
	mostAgents = 64
	// mostDelay is the longest delay of a bus that loopback stands for.
	mostDelay = 50 * time.Millisecond
	leastTime = 10 * time.Second
	// MostLag is the lag in seconds beyond which the machine is to blame.
	MostLag = 0.1
)

// Options say what to compare.
type Options struct {
	// Incident is the script in its own time; required.
	Incident *incident.Incident
	// Traces are the files that its arrivals name.
	Traces map[string]workload.Trace
	// Policy is world.PolicyWeir or world.PolicyNone; required.
	Policy string
	// Speed divides the script's time, 1 to MostSpeed; 0 means MostSpeed.
	Speed float64
	// Seed decides arrivals, sizes and luck.
	Seed uint64
	// Params are the parameters of the laws; nil means the defaults.
	Params *model.Params
	// CountFrom is the warm-up that no figure counts.
	CountFrom time.Duration
	// Version is this software's version, for people.
	Version string
	// Watch hears once a second how much of the script was played; nil for
	// nobody.
	Watch func(at, of time.Duration)
	// Logger hears of trouble inside; nil means nobody does.
	Logger *slog.Logger
}

// Side is what one of the two came to, from CountFrom on.
type Side struct {
	Requests  int64 `json:"requests"`
	Completed int64 `json:"completed"`
	// CouldHaveServed is what an omniscient scheduler served of the same
	// demand by the providers' books; GoodputRatio is Completed over it.
	CouldHaveServed int64   `json:"could_have_served"`
	GoodputRatio    float64 `json:"goodput_ratio"`
	Attempts        int64   `json:"attempts"`
	Wasted          int64   `json:"wasted_attempts"`
	WasteRatio      float64 `json:"waste_ratio"`
	// P50 and P99 are the times of completed requests.
	P50 float64 `json:"p50_s"`
	P99 float64 `json:"p99_s"`
	// Refused counts attempts that brought nothing by the class that Weir gave
	// them; empty without Weir.
	Refused map[string]int64 `json:"refused,omitempty"`
}

// Result is a comparison.
type Result struct {
	Incident string  `json:"incident"`
	Policy   string  `json:"policy"`
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"seconds"`
	// CountedFrom is the second from which figures count.
	CountedFrom float64 `json:"counted_from_s"`
	Live        Side    `json:"live"`
	Simulated   Side    `json:"simulated"`
	// GoodputOff and WasteOff are live less simulated, in points: hundredths.
	GoodputOff float64 `json:"goodput_off_points"`
	WasteOff   float64 `json:"waste_off_points"`
	// Lag is how late the 99th of a hundred requests was noticed live, in
	// seconds: beyond MostLag the machine had a part in the figures.
	Lag float64 `json:"lag_s"`
}

// Off is the larger of the two differences, in points.
func (r *Result) Off() float64 { return max(math.Abs(r.GoodputOff), math.Abs(r.WasteOff)) }

// Run compares one incident. An error means that it did not come to an end.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Speed == 0 {
		o.Speed = MostSpeed
	}
	if err := Check(&o); err != nil {
		return Result{}, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	inc := o.Incident.Compress(o.length())
	r := Result{
		Incident: inc.Name, Policy: o.Policy, Seed: o.Seed, Seconds: inc.Duration.Seconds(), CountedFrom: o.CountFrom.Seconds(),
	}
	var err error
	if r.Simulated, err = simulated(inc, &o); err != nil {
		return Result{}, fmt.Errorf("simulate %s: %w", inc.Name, err)
	}
	if r.Live, r.Lag, err = live(ctx, inc, &o); err != nil {
		return Result{}, fmt.Errorf("play %s: %w", inc.Name, err)
	}
	r.GoodputOff = 100 * (r.Live.GoodputRatio - r.Simulated.GoodputRatio)
	r.WasteOff = 100 * (r.Live.WasteRatio - r.Simulated.WasteRatio)
	return r, nil
}

// length is how long the script is played.
func (o *Options) length() time.Duration {
	return time.Duration(float64(o.Incident.Duration) / o.Speed).Round(time.Millisecond)
}

// Check reports what of an incident cannot be played live.
func Check(o *Options) error {
	inc := o.Incident
	switch n, bus := inc.Fleet.MaxAgents(), &inc.Fleet.Bus; {
	case o.Policy != world.PolicyNone && o.Policy != world.PolicyWeir:
		return fmt.Errorf("policy %s is not played live: want %s or %s", o.Policy, world.PolicyNone, world.PolicyWeir)
	case !(o.Speed >= 1 && o.Speed <= MostSpeed):
		return fmt.Errorf("a speed of %v: want 1 to %d", o.Speed, MostSpeed)
	case o.length()-o.CountFrom < leastTime:
		return fmt.Errorf("%s would be over in %s, of which %s are not counted: want at least %s more", inc.Name, o.length(), o.CountFrom, leastTime)
	case n > mostAgents:
		return fmt.Errorf("%s has up to %d agents: live there are at most %d", inc.Name, n, mostAgents)
	case bus.Loss > 0 || bus.Delay+bus.Jitter > mostDelay:
		return fmt.Errorf("%s has a bus that loses messages or takes over %s: live it is loopback", inc.Name, mostDelay)
	}
	for _, c := range inc.Fleet.Changes {
		if c.Kind != incident.AgentCount {
			return fmt.Errorf("%s has a change %s of the fleet: it is not played live", inc.Name, c.Kind)
		}
	}
	return nil
}

// simulated lives the script through in virtual time.
func simulated(inc *incident.Incident, o *Options) (Side, error) {
	r, err := world.Run(world.Config{
		Incident: inc, Seed: o.Seed, Policy: o.Policy, Params: o.Params, BooksFrom: o.CountFrom, Traces: o.Traces,
	})
	if err != nil {
		return Side{}, err
	}
	s := Side{
		Requests: r.Requests, Completed: r.Completed, CouldHaveServed: r.Could, GoodputRatio: r.GoodputRatio(),
		Attempts: r.Attempts, Wasted: r.Wasted, WasteRatio: r.WasteRatio(), P50: r.P50.Seconds(), P99: r.P99.Seconds(),
	}
	if o.Policy == world.PolicyWeir {
		s.Refused = map[string]int64{}
		for i := range r.Seconds {
			if r.Seconds[i].At <= int(o.CountFrom.Seconds()) {
				continue
			}
			for class, n := range r.Seconds[i].Refused {
				s.count(model.Class(class).String(), n)
			}
		}
	}
	return s, nil
}

// count adds to a class.
func (s *Side) count(class string, n int64) {
	if n > 0 {
		s.Refused[class] += n
	}
}

// live plays the script on this machine.
func live(ctx context.Context, inc *incident.Incident, o *Options) (side Side, lag float64, err error) {
	dir, err := os.MkdirTemp("", "weir-compare-")
	if err != nil {
		return Side{}, 0, fmt.Errorf("make folder for stores: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return play(ctx, inc, o, dir)
}
