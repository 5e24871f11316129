package incident

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func (w *writer) workload(l *Workload, duration time.Duration) {
	w.line("  - name: %s", name(l.Name))
	var m flow
	m.add("route", name(l.Route))
	if l.Tenant != "" {
		m.add("tenant", name(l.Tenant))
	}
	m.word("priority", l.Priority, PriorityNormal)
	if len(l.Agents) > 0 {
		m.add("agents", numbers(l.Agents))
	}
	m.add("arrivals", l.Arrivals.flow())
	m.span("start", l.Start, 0)
	m.span("stop", l.Stop, duration)
	m.add("input_tokens", l.InputTokens.flow())
	m.add("output_tokens", l.OutputTokens.flow())
	m.count("max_tokens", l.MaxTokens, 0)
	m.span("deadline", l.Deadline, 0)
	m.add("client", l.Client.flow())
	w.keys(m)
}

func (a *Arrivals) flow() string {
	var m flow
	m.add("kind", a.Kind)
	switch a.Kind {
	case ArrivePoisson:
		m.add("rate", ratio(a.Rate))
	case ArriveClosed:
		m.add("users", a.Users)
		m.span("think", a.Think, 0)
		m.count("steps", a.Steps, 1)
		m.count("restarts", a.Restarts, 0)
		if a.Walk != nil {
			m.add("walk", a.Walk.flow())
		}
	case ArriveBatch:
		m.add("size", a.Size)
		m.add("parallel", a.Parallel)
		m.add("every", a.Every)
	case ArriveTrace:
		m.add("file", strconv.Quote(a.File))
		m.ratio("scale", a.Scale, PPM)
	}
	return m.String()
}

func (x *Walk) flow() string {
	var m flow
	m.add("swing", ratio(x.Swing))
	m.add("every", x.Every)
	if len(x.Jumps) > 0 {
		var jumps []string
		for _, j := range x.Jumps {
			jumps = append(jumps, fmt.Sprintf("{at: %v, agent: %d, by: %d}", j.At, j.Agent, j.By))
		}
		m.add("jumps", "["+strings.Join(jumps, ", ")+"]")
	}
	return m.String()
}

func (s *Size) flow() string {
	var m flow
	m.add("kind", s.Kind)
	switch s.Kind {
	case SizeFixed:
		m.add("value", s.Value)
	case SizeUniform:
		m.add("min", s.Min)
		m.add("max", s.Max)
	case SizeChoice:
		values, weights := "", ""
		for i := range s.Values {
			if i > 0 {
				values, weights = values+", ", weights+", "
			}
			values += strconv.FormatInt(s.Values[i], 10)
			weights += ratio(s.Weights[i])
		}
		m.add("values", "["+values+"]")
		m.add("weights", "["+weights+"]")
	case SizeLognormal:
		m.add("mean", s.Mean)
		m.add("cv", ratio(s.CV))
	case SizeTrace:
	}
	return m.String()
}

func (c *Client) flow() string {
	var m flow
	m.span("timeout", c.Timeout, 0)
	m.count("pool", c.Pool, Unlimited)
	if c.Stream {
		m.add("stream", true)
	}
	r := &c.Retry
	var x flow
	x.add("kind", r.Kind)
	switch r.Kind {
	case RetryNone:
		return m.String()
	case RetryRequeue:
		x.add("after", r.After)
	case RetryBackoff:
		x.add("after", r.After)
		x.add("multiplier", ratio(r.Multiplier))
		x.add("max", r.Max)
		x.add("jitter", ratio(r.Jitter))
		x.add("attempts", r.Attempts)
	}
	m.add("retry", x)
	return m.String()
}
