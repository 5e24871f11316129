package story

import (
	"fmt"

	"weir/model"
)

// Why is how one channel stands at an instant, and why.
type Why struct {
	Channel string `json:"channel"`
	// Time and Seq are the newest record's.
	Time   Instant            `json:"time"`
	Seq    uint64             `json:"seq"`
	Term   uint64             `json:"term"`
	Params string             `json:"params"`
	State  model.FleetChannel `json:"state"`
	Pools  []model.FleetPool  `json:"pools"`
	// Parts say where each part stands and why, in a fixed order.
	Parts []Standing `json:"parts"`
	// Events are what led there, newest first; Omitted were before those.
	Events  []Event `json:"events"`
	Omitted uint64  `json:"omitted"`
}

// Standing is one part of a channel.
type Standing struct {
	Part Part `json:"part"`
	// Stands says where it stands, Because why.
	Stands  string `json:"stands"`
	Because string `json:"because"`
	// Seq is the record that put it there, 0 for none.
	Seq uint64 `json:"seq"`
}

// Why returns how the channel stands; ok is false when there is none of that
// name.
func (s *Story) Why(channel string) (w Why, ok bool) {
	view := s.fleet.View()
	for i := range view.Channels {
		if view.Channels[i].Name == channel {
			w.State, ok = view.Channels[i], true
		}
	}
	if !ok {
		return w, false
	}
	w.Channel, w.Time, w.Seq, w.Term, w.Params, w.Omitted = channel, s.Time(), view.Seq, view.Term, view.Params, s.omitted
	cfg, _ := s.fleet.Config()
	pools := map[string]bool{model.PoolOfChannel(channel): true}
	for i := range cfg.Channels {
		if cfg.Channels[i].Name == channel {
			for _, g := range cfg.Channels[i].Groups {
				pools[model.PoolOfGroup(g)] = true
			}
		}
	}
	w.Pools = []model.FleetPool{}
	for _, p := range view.Pools {
		if pools[p.Name] {
			w.Pools = append(w.Pools, p)
		}
	}
	w.Parts = []Standing{s.window(&w), s.weight(&w), s.breaker(&w), s.wait(&w), s.budget(&w), s.mode(&w)}
	w.Events = s.Events()
	for i, k := 0, len(w.Events)-1; i < k; i, k = i+1, k-1 {
		w.Events[i], w.Events[k] = w.Events[k], w.Events[i]
	}
	return w, true
}

// because tells a part's newest event; otherwise, without one.
func (s *Story) because(channel string, p Part, otherwise string) (string, uint64) {
	e, ok := s.last[aspect{channel, p}]
	if !ok {
		return otherwise, 0
	}
	return fmt.Sprintf("record %d at %s: %s; cause: %s", e.Seq, e.Time, e.Text, e.Cause), e.Seq
}

// calls says what came of the calls since a part's newest event.
func (s *Story) calls(channel string, p Part) string {
	t := s.since[aspect{channel, p}]
	if t == nil {
		return "no call ended since"
	}
	return "since then " + t.String()
}

func (s *Story) window(w *Why) Standing {
	c := &w.State
	st := Standing{Part: PartWindow, Stands: fmt.Sprintf("%s slots, epoch %d; %d leased, %d in flight, %d held, %d waiting", Slots(int64(c.Window)), c.Epoch, c.Leased, c.InFlight, c.Held, c.Queued)}
	st.Because, st.Seq = s.because(c.Name, PartWindow, "no cut so far: it starts at window_start and grows with each success while it is in use")
	e, ok := s.last[aspect{c.Name, PartWindow}]
	switch {
	case !ok:
	case e.After > 0 && int64(c.Window) > e.After:
		st.Because += fmt.Sprintf("; it has grown by %s since", Slots(int64(c.Window)-e.After))
	case e.After > 0 && int64(c.Window) < e.After:
		st.Because += fmt.Sprintf("; it is %s lower than that, for a limit told or set", Slots(e.After-int64(c.Window)))
	}
	st.Because += "; " + s.calls(c.Name, PartWindow)
	if c.Latency > 0 {
		st.Because += fmt.Sprintf("; calls take %.2f of their usual time", float64(c.Latency)/float64(model.One))
	}
	return st
}

func (s *Story) weight(w *Why) Standing {
	c := &w.State
	st := Standing{Part: PartWeight, Stands: Share(int64(c.Weight))}
	st.Because, st.Seq = s.because(c.Name, PartWeight, "nothing lowered it")
	if e, ok := s.last[aspect{c.Name, PartWeight}]; ok && e.Rule == string(model.RuleWeight) && int64(c.Weight) > e.After {
		st.Because += fmt.Sprintf("; it has regained %s since", Share(int64(c.Weight)-e.After))
	}
	return st
}

func (s *Story) breaker(w *Why) Standing {
	c := &w.State
	st := Standing{Part: PartBreaker, Stands: c.Breaker}
	st.Because, st.Seq = s.because(c.Name, PartBreaker, "nothing opened it")
	if st.Seq > 0 {
		st.Because += "; " + s.calls(c.Name, PartBreaker)
	}
	return st
}

func (s *Story) wait(w *Why) Standing {
	c := &w.State
	st := Standing{Part: PartWait, Stands: "calls may start"}
	st.Because, st.Seq = s.because(c.Name, PartWait, "nothing held or paused it")
	if c.Wait > 0 {
		st.Stands = fmt.Sprintf("nothing may start for %s", c.Wait-c.Wait%model.Millisecond)
		if b, ok := s.last[aspect{c.Name, PartBreaker}]; ok && c.State != model.BreakerClosed && b.Seq > st.Seq {
			st.Because, st.Seq = s.because(c.Name, PartBreaker, "")
		}
	} else if st.Seq > 0 {
		st.Because = "that is over: " + st.Because
	}
	return st
}

func (s *Story) budget(w *Why) Standing {
	st := Standing{Part: PartBudget, Stands: "no limit a minute is known"}
	for i, p := range w.Pools {
		text := fmt.Sprintf("%s: requests %s left, tokens %s left, %d requests wait", p.Name, left(p.RequestsLeft, p.RequestsPerMin), left(p.TokensLeft, p.TokensPerMin), p.WaitingRequests)
		if i == 0 {
			st.Stands = text
		} else {
			st.Stands += "; " + text
		}
	}
	_, seq := s.fleet.Config()
	calls, tokens := s.minutes[w.Channel].last(s.time)
	st.Because = fmt.Sprintf("what is told of limits was configured by record %d, what is not was learned from refusals; in the last minute %d calls ended with %d tokens", seq, calls, tokens)
	st.Seq = seq
	if e, ok := s.last[aspect{w.Channel, PartBudget}]; ok {
		st.Because += fmt.Sprintf("; last hold: record %d at %s: %s", e.Seq, e.Time, e.Text)
	}
	return st
}

func left(n, limit int64) string {
	if limit < 0 {
		return "without limit"
	}
	return fmt.Sprintf("%d of %d a minute", n, limit)
}

func (s *Story) mode(w *Why) Standing {
	st := Standing{Part: PartMode, Stands: w.State.Mode}
	_, seq := s.fleet.Config()
	st.Because, st.Seq = fmt.Sprintf("as configured by record %d", seq), seq
	for _, of := range []string{"", w.Channel} {
		if text, at := s.because(of, PartMode, ""); at > seq {
			st.Because, st.Seq = text, at
		}
	}
	return st
}
