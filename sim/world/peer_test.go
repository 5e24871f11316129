package world

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/sim/incident"
)

// scene is an incident of testdata, chosen for one peer.
func scene(t *testing.T, name string) *incident.Incident {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	inc, err := incident.Parse(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

// act plays a scene; the books open at from.
func act(t *testing.T, name, policy string, from time.Duration) *Result {
	t.Helper()
	return run(t, Config{Incident: scene(t, name), Seed: 1, Policy: policy, BooksFrom: from})
}

// perSecond is completed calls per second since the books opened.
func perSecond(r *Result, from time.Duration) float64 {
	return float64(r.Completed) / (float64(len(r.Seconds)) - from.Seconds())
}

// near fails the test when got is not within a share of want.
func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	t.Logf("%s: %.4f, expected %.4f", what, got, want)
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %.4f, want %.4f within %.0f %%", what, got, want, 100*share)
	}
}

// TestSawtooth. A window of one process alone at a cap C is cut from C+1 to
// about b*C by one refusal. Calls in flight then end without successors while
// each success adds a slot, so they meet at (1+b)/2 of C and climb back to it
// together: the mean in flight is (3+b)/4 of C. One refusal cuts what as many
// successes have added: with a cut of k slots it is 1 of k+1 attempts.
func TestSawtooth(t *testing.T) {
	for _, c := range []struct {
		policy, scene string
		slots         float64 // and as many calls a second, of 1 s each
		keep, cut     float64
	}{
		{"plain-aimd", "peer-sawtooth-1", 100, 0.7, 101 - 70},
		{"netflix-aimd", "peer-sawtooth-1", 100, 0.9, 101 - 90},
		{"incident-remedy", "peer-sawtooth-small", 20, 0.5, 21 - 10},
	} {
		t.Run(c.policy, func(t *testing.T) {
			r := act(t, c.scene, c.policy, time.Minute)
			near(t, "share of the cap", perSecond(r, time.Minute)/c.slots, (3+c.keep)/4, 0.02)
			near(t, "waste", r.WasteRatio(), 1/(1+c.cut), 0.05)
		})
	}
}

// TestNetflixAIMDOfMany: in windows below ten a refusal cuts one slot and a
// success adds one, so that half of all attempts are refused for ever.
func TestNetflixAIMDOfMany(t *testing.T) {
	r := act(t, "peer-sawtooth-10", "netflix-aimd", time.Minute)
	near(t, "waste", r.WasteRatio(), 0.5, 0.03)
	near(t, "share of the cap", perSecond(r, time.Minute)/50, 1, 0.02)
}

// TestNeMo saws classically: cut to 3/4 (15 of 20) and one more for 25
// successes, which is (1+0.75)/2 of the cap on average, with one refusal for
// the 6 times 25 successes from 15 slots to a try at 21.
func TestNeMo(t *testing.T) {
	r := act(t, "peer-long-calls", "nemo-aimd", time.Hour)
	near(t, "share of the cap", perSecond(r, time.Hour), (1+0.75)/2, 0.02)
	near(t, "waste", r.WasteRatio(), 1.0/151, 0.1)
}

// TestGradient2LimitsNothing: the first second feels the 20 calls a process
// starts with. Soon refusals, which are quick, have raised the limit
// over the 50 that anybody wants, although there are 5 slots a process.
func TestGradient2LimitsNothing(t *testing.T) {
	const from = 20 * time.Second
	none := act(t, "peer-crowd", PolicyNone, from)
	r := act(t, "peer-crowd", "netflix-gradient2", from)
	if a, b := r.Seconds[0].Sent, none.Seconds[0].Sent; float64(a) > 0.97*float64(b) {
		t.Errorf("%d attempts in the first second, want fewer than the %d without a limit", a, b)
	}
	near(t, "attempts over those without a limit", float64(r.Attempts)/float64(none.Attempts), 1, 0.01)
	near(t, "completed over those without a limit", float64(r.Completed)/float64(none.Completed), 1, 0.06)
	near(t, "waste", r.WasteRatio(), none.WasteRatio(), 0.005)
}

// TestAWSFloor: 40 processes that always want more each send half a call a
// second at least, together 20, and at most twice that: of those 8 are served.
func TestAWSFloor(t *testing.T) {
	r := act(t, "peer-quota", "aws-adaptive", time.Minute)
	near(t, "served a second", perSecond(r, time.Minute), 8, 0.01)
	t.Logf("waste %.3f", r.WasteRatio())
	if w := r.WasteRatio(); w < 1-8.0/20 || w > 1-8.0/40 {
		t.Errorf("waste %.3f, want 0.6 to 0.8", w)
	}
}

// TestGoogleThrottle: with K = 2 one attempt is refused for each accepted.
func TestGoogleThrottle(t *testing.T) {
	r := act(t, "peer-overload", "google-throttle", 4*time.Minute)
	near(t, "waste", r.WasteRatio(), 0.5, 0.02)
	if r.TurnedAway < r.Attempts {
		t.Errorf("%d shed, %d sent; want most of four times too much shed", r.TurnedAway, r.Attempts)
	}
}

// TestBreaker: in ten minutes without service each of three processes sends
// six calls, then one after every 60 s (and what it takes to ask and be
// refused): nine more. It is closed again within 61 s of the end.
func TestBreaker(t *testing.T) {
	r := act(t, "peer-outage", "process-breaker", 0)
	if want := int64(3 * (6 + 9)); r.Refused != want {
		t.Errorf("%d attempts refused, want %d", r.Refused, want)
	}
	var served []int
	for i := range r.Seconds {
		if r.Seconds[i].Completed > 0 {
			served = append(served, i)
		}
	}
	if len(served) == 0 || served[0] < 600 || served[0] > 661 {
		t.Fatalf("first served in seconds %v, want from 600 to 661", served[:min(len(served), 3)])
	}
	// Three users with 0.6 s a turn.
	last := r.Seconds[700:]
	sum := int64(0)
	for i := range last {
		sum += last[i].Completed
	}
	near(t, "served a second once closed", float64(sum)/float64(len(last)), 3/0.6, 0.05)
}

// TestSDK: while nothing is served each request takes three attempts.
func TestSDK(t *testing.T) {
	r := act(t, "peer-outage", "openai-sdk", 0)
	if r.Retries < 2*r.Failed || r.Retries > 2*(r.Failed+3) {
		t.Errorf("%d retries for %d failed requests, want two each", r.Retries, r.Failed)
	}
	// 0.5 s and 1 s less an eighth on average, three refusals and a thought.
	near(t, "seconds a request", 3*600/float64(r.Failed), 1.5*7/8+3*0.05+0.1, 0.03)
}

// TestLiteLLM: of two deployments the dead one is put aside for 5 s at the
// first refusal. With ten calls a second in each process it is the turn of
// the dead one 0.2 s later: a refusal every 5.2 s. All go on to the other.
func TestLiteLLM(t *testing.T) {
	r := act(t, "peer-two-deployments", "litellm-cooldown", 0)
	near(t, "refused", float64(r.Refused), 2*600/5.2, 0.05)
	if r.Failed != 0 {
		t.Errorf("%d failed, want none", r.Failed)
	}
	// A deployment alone in its tier is not put aside: three tries of each
	// request are refused before it falls to the next tier.
	r = act(t, "peer-two-tiers", "litellm-cooldown", 0)
	if r.Refused != 3*r.Completed || r.Failed != 0 || r.Completed < 300 {
		t.Errorf("%d completed, %d failed, %d refused; want three refused for each completed", r.Completed, r.Failed, r.Refused)
	}
}

// TestStaticSplit: a told limit is never passed, and what was given to
// processes that died serves nobody.
func TestStaticSplit(t *testing.T) {
	r := act(t, "peer-told", "static-split", 0)
	if r.Refused != 0 {
		t.Errorf("%d refused within the told limit, want none", r.Refused)
	}
	rate := func(from, to int) float64 {
		sum := int64(0)
		for i := from; i < to; i++ {
			sum += r.Seconds[i].Completed
		}
		return float64(sum) / float64(to-from)
	}
	near(t, "served a second by four", rate(60, 300), 40, 0.02)
	near(t, "served a second by two", rate(310, 600), 20, 0.02)
}

// TestPeerGivesSlotsBack: calls that their application gives up, waiting or
// under way, hold nothing, and what is told is never passed.
func TestPeerGivesSlotsBack(t *testing.T) {
	inc := scene(t, "peer-told")
	inc.Fleet.Changes = nil
	inc.Duration = 2 * time.Minute
	inc.Workloads[0].Client.Timeout = 1500 * time.Millisecond
	r := run(t, Config{Incident: inc, Seed: 1, Policy: "static-split"})
	if r.Timeouts < 1000 || r.Abandoned < 100 {
		t.Errorf("%d gave up, %d of them under way; want many", r.Timeouts, r.Abandoned)
	}
	if b := r.Books[0]; b.MaxRunning != 40 || r.Refused != 0 {
		t.Errorf("at most %d ran, %d refused; want all 40 slots used and none refused", b.MaxRunning, r.Refused)
	}
	last := r.Seconds[len(r.Seconds)-30:]
	for _, s := range last {
		if s.InFlight < 38 {
			t.Errorf("%d in flight at second %d; want nearly all 40", s.InFlight, s.At)
		}
	}
}

// TestPeerQueueIsBounded: 1000 a second arrive, none is served.
func TestPeerQueueIsBounded(t *testing.T) {
	inc := scene(t, "peer-told")
	inc.Fleet.Agents, inc.Fleet.Changes = 1, nil
	inc.Channels[0].Limits.Concurrency = 0
	inc.Duration = 30 * time.Second
	w := &inc.Workloads[0]
	w.Arrivals = incident.Arrivals{Kind: incident.ArrivePoisson, Rate: 1000 * incident.PPM}
	w.Stop = inc.Duration
	r := run(t, Config{Incident: inc, Seed: 1, Policy: "static-split"})
	if want := r.Requests - laneLimit; r.Attempts != 0 || r.TurnedAway != want || want < 15_000 {
		t.Errorf("%d wanted, %d sent, %d turned away; want all but %d turned away", r.Requests, r.Attempts, r.TurnedAway, laneLimit)
	}
}
