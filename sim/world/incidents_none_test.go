package world

import (
	"math"
	"slices"
	"testing"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// life is an incident lived through without control, natural length.
type life struct {
	*testing.T
	inc *incident.Incident
	w   *world
	r   *Result
}

const minutes = time.Minute

// sum adds up the seconds from one instant to another.
func (l *life) sum(from, to time.Duration) (s Second) {
	for _, x := range l.r.Seconds {
		if at := time.Duration(x.At) * time.Second; at <= from || at > to {
			continue
		}
		s.Wanted += x.Wanted
		s.Completed += x.Completed
		s.Failed += x.Failed
		s.Sent += x.Sent
		s.Could += x.Could
		for k, n := range x.Refused {
			s.Refused[k] += n
		}
	}
	return s
}

// refused is the share of attempts that were refused in a time.
func (l *life) refused(from, to time.Duration) float64 {
	s := l.sum(from, to)
	n := int64(0)
	for _, x := range s.Refused {
		n += x
	}
	return float64(n) / float64(max(s.Sent, 1))
}

// good is the share of what an omniscient scheduler serves that was completed
// in a time.
func (l *life) good(from, to time.Duration) float64 {
	s := l.sum(from, to)
	return float64(s.Completed) / float64(max(s.Could, 1))
}

// within reports a figure outside its bounds.
func (l *life) within(what string, got, least, most float64) {
	l.Helper()
	if !(got >= least && got <= most) {
		l.Errorf("%s: %.3f, want %.3f to %.3f", what, got, least, most)
	}
}

// changed lives the incident through again with something else.
func (l *life) changed(change func(*incident.Incident)) *life {
	l.Helper()
	inc := *builtin(l.T, l.inc.Name)
	change(&inc)
	w, r := lived(l.T, &inc, PolicyNone)
	return &life{l.T, &inc, w, r}
}

// blind checks that without control the fleet's own troubles change nothing,
// and that there is more demand than fits: the incident is one of sharing.
func (l *life) blind() {
	l.Helper()
	quiet := l.changed(func(inc *incident.Incident) { inc.Fleet.Changes, inc.Fleet.Bus = nil, incident.Bus{} })
	if quiet.r.Completed != l.r.Completed {
		l.Errorf("completed %d, and %d when nothing happens to the fleet", l.r.Completed, quiet.r.Completed)
	}
	l.within("refused share", l.refused(0, l.inc.Duration), 0.5, 1)
}

// TestIncidentsAreWhatTheySay lives each built-in incident through without
// control and holds what makes it that incident. Variants by number of agents
// are the same without control.
func TestIncidentsAreWhatTheySay(t *testing.T) {
	for _, c := range nones() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inc := builtin(t, c.name)
			w, r := lived(t, inc, PolicyNone)
			c.holds(&life{t, inc, w, r})
		})
	}
}

// TestEveryIncidentIsHeld: no built-in incident without a test of its own.
func TestEveryIncidentIsHeld(t *testing.T) {
	held := []string{"2064-cascade", "2064-pause", "14003-window"} // elsewhere
	for _, c := range nones() {
		inc := builtin(t, c.name)
		held = append(held, c.name)
		for _, n := range inc.Fleet.Also {
			held = append(held, inc.WithAgents(n).Name)
		}
	}
	for _, name := range incident.List() {
		if !slices.Contains(held, name) {
			t.Errorf("nothing says what makes %s that incident", name)
		}
	}
}

type none struct {
	name  string
	holds func(l *life)
}

func nones() []none {
	return slices.Concat(rowNones(), capacityNones(), limitNones(), fleetNones(), loadNones())
}

func rowNones() []none {
	return []none{
		{"row-steady", func(l *life) {
			l.within("refused share", l.refused(0, 5*minutes), 0.7, 1)
			l.within("goodput, refusals being free", l.good(1*minutes, 5*minutes), 0.95, 1.1)
		}},
		{"row-step", func(l *life) {
			before, after := l.sum(0, 2*minutes), l.sum(3*minutes, 5*minutes)
			l.within("completed after the step to before", float64(after.Completed)/float64(before.Completed), 0.3, 0.5)
		}},
		{"row-rise", func(l *life) {
			before, after := l.sum(60*time.Second, 2*minutes), l.sum(3*minutes, 4*minutes)
			l.within("completed after the rise to before", float64(after.Completed)/float64(before.Completed), 2, 3)
		}},
		{"row-hidden-rate", func(l *life) {
			b := l.r.Books[0].Refused
			l.within("share refused for tokens or requests", float64(b.Tokens+b.Requests)/float64(b.Total()), 1, 1)
			l.within("both limits are met", float64(min(b.Tokens, b.Requests)), 100, math.Inf(1))
			l.within("goodput, refusals being free", l.good(0, 5*minutes), 0.95, 1.2)
		}},
		{"row-charged", func(l *life) {
			l.within("goodput in debt", l.good(1*minutes, 5*minutes), 0, 0.2)
		}},
		{"row-ambiguous", func(l *life) {
			s := l.sum(0, 5*minutes)
			l.within("refusals that seem to be of another kind", float64(s.Refused[model.ClassRateLimited]), 0, 0)
			l.within("refusals that seem to be overload", float64(s.Refused[model.ClassOverloaded]), 1000, math.Inf(1))
			l.within("of which are", float64(l.r.Books[0].Refused.Concurrency), 0, 0)
		}},
		{"row-headers", func(l *life) {
			p, _ := provider.New(provider.Config{Incident: l.inc.Providers[0], Seed: 1})
			a := p.Offer(0, provider.Call{Request: 1, Try: 1, Input: 1500, Output: 400})
			if !a.Headers.Sent || a.Headers.Requests.Limit != 600 || a.Headers.Tokens.Limit != 1_000_000 {
				l.Errorf("headers of an answer: %+v", a.Headers)
			}
			l.within("refused share", l.refused(0, 5*minutes), 0.7, 1)
		}},
		{"row-outage", func(l *life) {
			l.within("refused before", l.refused(0, 1*minutes), 0, 0.1)
			l.within("refused in the outage", l.refused(61*time.Second, 90*time.Second), 0.95, 1)
			l.within("refused right after it", l.refused(91*time.Second, 2*minutes), 0.2, 1)
			l.within("completed in 300 s", l.good(1*minutes, 6*minutes), 0.85, 1.01)
		}},
	}
}

func capacityNones() []none {
	return []none{
		{"step-down-up", func(l *life) {
			l.within("refused before", l.refused(0, 3*minutes), 0, 0.2)
			l.within("refused in the step", l.refused(4*minutes, 6*minutes), 0.7, 1)
			l.within("goodput in the step", l.good(4*minutes, 6*minutes), 0, 0.7)
		}},
		{"sine", func(l *life) {
			var high, low int64
			for k := range 4 {
				at := 30*time.Second + time.Duration(k)*2*minutes
				high += l.sum(at+15*time.Second, at+45*time.Second).Completed
				low += l.sum(at+75*time.Second, at+105*time.Second).Completed
			}
			l.within("completed around the tops to around the bottoms", float64(high)/float64(low), 1.5, 2.5)
		}},
		{"flapping", func(l *life) {
			var up, down int64
			for k := range 7 {
				at := 1*minutes + time.Duration(k)*minutes
				down += l.sum(at+3*time.Second, at+30*time.Second).Completed
				up += l.sum(at+33*time.Second, at+60*time.Second).Completed
			}
			l.within("completed while up to while down", float64(up)/float64(down), 3, 30)
		}},
		{"brownout", func(l *life) {
			l.within("refused calls", float64(l.r.Refused), 0, 0)
			l.within("goodput before", l.good(1*minutes, 3*minutes), 0.95, 1.05)
			l.within("goodput while slow", l.good(4*minutes, 7*minutes), 0, 0.3)
			l.within("goodput three minutes after", l.good(10*minutes, 12*minutes), 0, 0.3)
			l.within("lost patience", float64(l.r.Timeouts), 10_000, math.Inf(1))
		}},
		{"slow-refusals", func(l *life) {
			l.within("goodput before", l.good(30*time.Second, 2*minutes), 0.9, 1.05)
			l.within("goodput minutes after", l.good(5*minutes, 8*minutes), 0, 0.3)
			free := l.changed(func(inc *incident.Incident) {
				p := inc.Providers[0]
				p.Law.Refusal.HoldsSlot = false
				p.Changes = slices.Clone(p.Changes)
				for i := range p.Changes {
					p.Changes[i].To.Refusal.HoldsSlot = false
				}
				inc.Providers = []incident.Provider{p}
			})
			l.within("goodput where refusals are free", free.good(5*minutes, 8*minutes), 0.95, 1.1)
		}},
		{"weight-collapse", func(l *life) {
			l.within("calls on the second channel", float64(l.r.Books[1].Offered), 0, 0)
			l.within("refused by the first", l.refused(1*minutes, 12*minutes), 0.5, 1)
			capacity := l.inc.Providers[0].Law.Concurrency + l.inc.Providers[1].Law.Concurrency
			l.within("demand in slots to both caps", 32*2.3/float64(capacity), 0.5, 0.75)
		}},
		{"cold-region", func(l *life) {
			l.within("goodput before", l.good(30*time.Second, 3*minutes), 0.95, 1.05)
			l.within("completed while nothing is there", float64(l.sum(3*minutes+8*time.Second, 3*minutes+15*time.Second).Completed), 0, 20)
			l.within("goodput when all is there again", l.good(10*minutes, 14*minutes), 0, 0.6)
		}},
		{"cold-spare", func(l *life) {
			l.within("calls on the spare", float64(l.r.Books[1].Offered), 0, 0)
			l.within("completed while main is gone", float64(l.sum(3*minutes+20*time.Second, 8*minutes).Completed), 0, 20)
		}},
		{"other-tenants", func(l *life) {
			quiet, storm := l.refused(0, 2*minutes), l.refused(2*minutes+30*time.Second, 5*minutes)
			l.within("refused before", quiet, 0, 0.2)
			l.within("refused in the storm", storm, 0.8, 1)
			law := l.inc.Providers[0].Changes[0].To
			l.within("share of the cap that strangers take", float64(law.Background)/float64(law.Concurrency), 0.6, 0.75)
		}},
		{"herd", func(l *life) {
			var phase [3]int64
			refused := 0.0
			for m := range 4 {
				dip := (m + 1) * 60
				for _, s := range l.r.Seconds[dip+2 : dip+17] {
					phase[(s.At-dip)%3] += s.Sent
				}
				refused += l.refused(time.Duration(dip+2)*time.Second, time.Duration(dip+17)*time.Second) / 4
			}
			// The calls of the dip's second come back in the same third.
			l.within("calls in the herd's second to those in the others", 2*float64(phase[1])/float64(phase[0]+phase[2]), 1.3, 5)
			l.within("refused in the quarter minute after", refused, 0.1, 1)
			l.within("refused before", l.refused(0, 1*minutes), 0, 0.15)
		}},
	}
}

func limitNones() []none {
	return []none{
		{"2064-quota", func(l *life) {
			l.within("refused share", l.refused(0, 15*minutes), 0.3, 1)
			b := l.r.Books[0].Refused
			l.within("for want of slots", float64(b.Concurrency), 0, 0)
			l.within("by the quota", float64(b.Requests+b.Tokens), 100, math.Inf(1))
		}},
		{"noon-quota", func(l *life) {
			l.within("goodput in the morning", l.good(0, 5*minutes), 0.95, 1.05)
			l.within("completed in the afternoon", float64(l.sum(5*minutes+30*time.Second, 15*minutes).Completed), 0, 0)
			l.within("calls on the light model", float64(l.r.Books[1].Offered), 0, 0)
			l.within("completed after midnight a minute", float64(l.sum(16*minutes, 25*minutes).Completed)/9, 600, 1500)
		}},
		{"told-day", func(l *life) {
			l.within("goodput before noon", l.good(0, 4*minutes+30*time.Second), 0.95, 1.05)
			l.within("completed while the day is over", float64(l.sum(6*minutes, 15*minutes).Completed), 0, 0)
			l.within("calls on the light model", float64(l.r.Books[1].Offered), 0, 0)
			l.within("completed after midnight a minute", float64(l.sum(16*minutes, 20*minutes).Completed)/4, 400, 1500)
		}},
		{"ban", func(l *life) {
			b := l.r.Books[0].Refused
			l.within("refused by the limit", float64(b.Requests), 20, 60)
			l.within("refused by the ban", float64(b.Ban), 10_000, math.Inf(1))
			l.within("completed from minute 3 to 30", float64(l.sum(3*minutes, 30*minutes).Completed), 0, 10)
		}},
		{"widening-windows", func(l *life) {
			early, late := l.sum(0, 5*minutes).Completed, l.sum(10*minutes, 20*minutes).Completed
			l.within("completed in five early minutes", float64(early), 100, 1500)
			l.within("completed in ten late ones", float64(late), 0, float64(early)/2)
			l.within("refused by the blocks to refused by the limit", float64(l.r.Books[0].Refused.Ban)/float64(l.r.Books[0].Refused.Requests), 100, math.Inf(1))
		}},
		{"two-models", func(l *life) {
			l.within("refused while one model is used", l.refused(30*time.Second, 2*minutes), 0, 0.1)
			l.within("refused while both are", l.refused(3*minutes, 10*minutes), 0.5, 1)
			if a, b := l.inc.Channels[0], l.inc.Channels[1]; a.Provider != b.Provider || !slices.Equal(a.Groups, b.Groups) {
				l.Errorf("channels of two accounts: %+v and %+v", a, b)
			}
		}},
		{"hint-ignored", func(l *life) {
			l.within("refused share", l.refused(0, 6*minutes), 0.9, 1)
			l.within("hint of a refusal in seconds", l.hint(), 5, 60)
		}},
		{"hint-short", func(l *life) {
			l.within("refused share", l.refused(0, 6*minutes), 0.9, 1)
			l.within("hint of a refusal in seconds", l.hint(), 1, 1)
		}},
		{"hint-absurd", func(l *life) {
			l.within("hint of a refusal in seconds", l.hint(), 86_400, 86_400)
			l.within("goodput of who does not listen", l.good(1*minutes, 6*minutes), 0.95, 1.1)
		}},
		{"deep-bucket", func(l *life) {
			first := time.Duration(0)
			for _, s := range l.r.Seconds {
				if s.Refused[model.ClassRateLimited] > 0 {
					first = time.Duration(s.At) * time.Second
					break
				}
			}
			l.within("minutes until the first refusal", first.Minutes(), 12, 30)
			l.within("refused in the last five minutes", l.refused(30*minutes, 35*minutes), 0.3, 1)
		}},
		{"max-tokens", func(l *life) {
			b := l.r.Books[0]
			used := float64(b.ServedInput+b.ServedOutput) / l.inc.Duration.Minutes()
			l.within("tokens served to the limit a minute", used/1_200_000, 0.2, 0.45)
			l.within("refused share", l.refused(1*minutes, 8*minutes), 0.5, 1)
		}},
		{"daily-peaks", func(l *life) {
			clock := func(h float64) time.Duration { return time.Duration(h * 2 * float64(time.Minute)) }
			l.within("refused at night", l.refused(clock(1), clock(8)), 0, 0.1)
			l.within("refused from 10 to 12", l.refused(clock(10), clock(12)), 0.6, 1)
			l.within("refused from 13 to 19", l.refused(clock(15), clock(19)), 0, 0.6)
			l.within("refused from 20 to 23", l.refused(clock(20), clock(23)), 0.6, 1)
		}},
	}
}

// hint is the wait in seconds that the first refusal asks for when more calls
// come at one instant than a minute takes.
func (l *life) hint() float64 {
	p, _ := provider.New(provider.Config{Incident: l.inc.Providers[0], Seed: 1})
	for i := range l.inc.Providers[0].Law.RPM.Limit + 1 {
		a := p.Offer(0, provider.Call{ID: uint64(i), Request: uint64(i), Try: 1, Input: 1500, Output: 300})
		if !a.Accepted() {
			return a.Refusal.RetryAfter.Seconds()
		}
	}
	l.Error("no call is refused")
	return 0
}

func fleetNones() []none {
	return []none{
		{"fleet-growth", func(l *life) {
			l.within("agents at most", float64(l.inc.Fleet.MaxAgents()), 200, 200)
			l.within("completed beside agent 150 to agent 5", float64(l.r.ByAgent[150])/float64(l.r.ByAgent[5]), 0.005, 0.2)
			l.within("refused share", l.refused(0, 10*minutes), 0.5, 1)
		}},
		{"window-3", func(l *life) {
			l.within("most at a time", float64(l.r.Books[0].MaxInFlight), 3, 3)
			l.within("agents served", float64(len(l.r.ByAgent)), 64, 64)
			l.within("least served agent", float64(slices.Min(l.r.ByAgent)), 5, 100)
			l.within("refused share", l.refused(0, 10*minutes), 0.5, 1)
		}},
		{"controller-down", (*life).blind},
		{"failovers", (*life).blind},
		{"half-cut-off", (*life).blind},
		{"controller-down-skewed", func(l *life) {
			l.blind()
			few, all := int64(0), int64(0)
			for agent, n := range l.r.ByAgent {
				all += n
				if agent < 8 {
					few += n
				}
			}
			l.within("share of an eighth of the agents", float64(few)/float64(all), 0.75, 0.85)
		}},
		{"crash-loop", func(l *life) {
			steady := l.changed(func(inc *incident.Incident) { inc.Fleet.Changes = nil })
			l.within("calls given up by crashes", float64(l.r.Abandoned-steady.r.Abandoned), 50, 1000)
			l.within("requests wanted of agents that are there", float64(l.r.Requests)/float64(steady.r.Requests), 0.9, 0.999)
		}},
		{"lossy-bus", func(l *life) {
			quiet := l.changed(func(inc *incident.Incident) { inc.Fleet.Bus = incident.Bus{} })
			if quiet.r.Completed != l.r.Completed {
				l.Errorf("completed %d, and %d over a good bus", l.r.Completed, quiet.r.Completed)
			}
			before, after := l.sum(1*minutes, 3*minutes), l.sum(4*minutes, 6*minutes)
			l.within("completed while capacity is halved", float64(after.Completed)/float64(before.Completed), 0.4, 0.6)
		}},
		{"doorman-mishaps", func(l *life) {
			full := 0
			for _, s := range l.r.Seconds[60:] {
				if s.InFlight >= 495 {
					full++
				}
			}
			l.within("share of the time with all in use", float64(full)/float64(len(l.r.Seconds)-60), 0.9, 1)
			l.within("most served client to least", float64(slices.Max(l.r.ByAgent))/float64(slices.Min(l.r.ByAgent)), 2, 100)
			mishaps := len(l.inc.Fleet.Changes) + len(l.inc.Workloads[0].Arrivals.Walk.Jumps)
			l.within("mishaps", float64(mishaps), 59, 60)
		}},
	}
}

func loadNones() []none {
	return []none{
		{"agent-chain", func(l *life) {
			busy := l.w.sources.Tasks()
			l.within("tasks done of those begun", float64(busy.Done)/float64(busy.Done+busy.Again+busy.Lost), 0, 0.2)
			idle := l.changed(func(inc *incident.Incident) {
				p := inc.Providers[0]
				p.Law.Concurrency = 400
				inc.Providers = []incident.Provider{p}
			})
			calm := idle.w.sources.Tasks()
			l.within("tasks done with room for all", float64(calm.Done)/float64(calm.Done+calm.Again+calm.Lost), 0.9, 1)
		}},
		{"noisy-tenant", func(l *life) {
			l.within("refused before", l.refused(30*time.Second, 3*minutes), 0, 0.1)
			l.within("refused in the storm", l.refused(4*minutes, 8*minutes), 0.7, 1)
			rest := slices.Clone(l.r.ByAgent[1:])
			l.within("served beside the noisy agent to the next busiest", float64(l.r.ByAgent[0])/float64(slices.Max(rest)), 3, 20)
		}},
		{"mixed-lengths", func(l *life) {
			before, between := l.sum(1*minutes, 3*minutes), l.sum(4*minutes, 7*minutes)
			l.within("requests a minute while the mix changes", float64(between.Wanted)/3/(float64(before.Wanted)/2), 1, 1.1)
			l.within("completed a minute meanwhile to before", float64(between.Completed)/3/(float64(before.Completed)/2), 0.1, 0.8)
		}},
		{"trace-code", func(l *life) {
			l.within("busiest second to the mean", l.burst(), 5, 30)
		}},
		{"trace-conv", func(l *life) {
			l.within("busiest second to the mean", l.burst(), 1, 5)
			l.within("refused for tokens", float64(l.r.Books[0].Refused.Tokens), 1000, math.Inf(1))
		}},
		{"trace-long", func(l *life) {
			b := l.r.Books[0]
			l.within("tokens a call", float64(b.ServedInput)/float64(b.Served), 8000, 20_000)
			l.within("refused for tokens", float64(b.Refused.Tokens), 1000, math.Inf(1))
		}},
	}
}

// burst is the 99th percentile of requests wanted in a second to the mean.
func (l *life) burst() float64 {
	var each []int64
	total := int64(0)
	for _, s := range l.r.Seconds {
		each = append(each, s.Wanted)
		total += s.Wanted
	}
	slices.Sort(each)
	return float64(each[len(each)*99/100]) * float64(len(each)) / float64(total)
}

// TestPauseEndsTheJam plays the end of the cascade: jammed until the queue is
// stopped, empty while it stands, calm when the trickle has become the stream;
// without the pause it stays full though the capacity is back.
func TestPauseEndsTheJam(t *testing.T) {
	inc := builtin(t, "2064-pause").Compress(9 * minutes)
	at := func(minute float64) time.Duration { return time.Duration(minute * float64(12*time.Second)) }
	w, r := lived(t, inc, PolicyNone)
	l := &life{t, inc, w, r}
	l.within("goodput in the jam", l.good(at(24), at(26)), 0, 0.45)
	l.within("refused in the jam", l.refused(at(24), at(26)), 0.5, 1)
	l.within("calls while the queue stands", float64(l.sum(at(26)+3*time.Second, at(29)).Sent), 0, 0)
	l.within("refused from the restart on", l.refused(at(29), at(45)), 0, 0)
	l.within("goodput at the end", l.good(at(43), at(45)), 0.97, 1.03)
	l.within("in flight at the end", float64(r.Seconds[len(r.Seconds)-1].InFlight), 130, 190)

	inc.Fleet.Changes = nil
	w, r = lived(t, inc, PolicyNone)
	l = &life{t, inc, w, r}
	l.within("in flight without the pause", float64(r.Seconds[len(r.Seconds)-1].InFlight), 195, 200)
	l.within("goodput without the pause", l.good(at(43), at(45)), 0.5, 0.85)
}

// TestFiveThreadsFailAtTheFifteenth holds the report of code 14003: 210 calls
// with 200 ms between them pass, five threads are refused at the fifteenth call
// or, where a window ends meanwhile, at the latest at the 29th.
func TestFiveThreadsFailAtTheFifteenth(t *testing.T) {
	inc := builtin(t, "14003-window")
	earliest := int64(math.MaxInt64)
	for seed := range uint64(20) {
		if n, _ := gateway(inc, seed, 1, 200*time.Millisecond, 210); n != 210 {
			t.Errorf("seed %d: a careful script is refused after %d calls", seed, n)
		}
		n, refusal := gateway(inc, seed, 5, 0, 210)
		if n > 28 {
			t.Errorf("seed %d: five threads are refused after %d calls", seed, n)
		}
		if refusal.Status != 200 || refusal.Code != "14003" || refusal.RetryAfter != 3*time.Second {
			t.Errorf("seed %d: refusal %+v", seed, refusal)
		}
		earliest = min(earliest, n)
	}
	if earliest != 14 {
		t.Errorf("five threads had %d calls before the first refusal at least, want 14", earliest)
	}
}

// gateway lets threads call one after the other with a pause between, and
// returns how many calls were accepted before the first refusal.
func gateway(inc *incident.Incident, seed uint64, threads int, pause time.Duration, calls int64) (n int64, r provider.Refusal) {
	p, _ := provider.New(provider.Config{Incident: inc.Providers[0], Seed: seed})
	free := make([]int64, threads) // when each calls next; never while it waits
	for n < calls {
		thread := 0
		for i := range free {
			if free[i] < free[thread] {
				thread = i
			}
		}
		now := min(free[thread], p.NextWake())
		for _, e := range p.Advance(now, nil) {
			if e.Kind == provider.Done {
				free[e.ID%uint64(threads)] = e.At + int64(pause)
			}
		}
		if free[thread] > now {
			continue
		}
		a := p.Offer(now, provider.Call{ID: uint64(thread), Request: uint64(n), Try: 1, Input: 1500, Output: 200})
		if !a.Accepted() {
			return n, a.Refusal
		}
		n++
		free[thread] = never
	}
	return n, r
}
