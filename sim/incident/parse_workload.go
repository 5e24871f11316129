package incident

import (
	"cmp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/sim/strict"
)

func (r *reader) workload(n ast.Node, path string, duration time.Duration) Workload {
	w := Workload{Priority: PriorityNormal, Stop: duration, Client: Client{Pool: Unlimited, Retry: Retry{Kind: RetryNone}}}
	f := r.Mapping(n, path)
	if f == nil {
		return w
	}
	for _, key := range []string{"name", "route", "arrivals", "input_tokens", "output_tokens"} {
		f.Need(key)
	}
	f.Name("name", &w.Name)
	f.Name("route", &w.Route)
	f.Name("tenant", &w.Tenant)
	strict.Choose(f, "priority", &w.Priority, PriorityInteractive, PriorityNormal, PriorityBatch)
	if c := f.Child("arrivals"); c != nil {
		r.arrivals(c, &w.Arrivals)
	}
	w.Agents = r.agents(f)
	f.Span("start", &w.Start, 0)
	f.Span("stop", &w.Stop, 0)
	if w.Stop < w.Start {
		r.Fault(n, "%s: stop is before start", path)
	}
	r.size(f, "input_tokens", &w.InputTokens, w.Arrivals.Kind)
	r.size(f, "output_tokens", &w.OutputTokens, w.Arrivals.Kind)
	f.Count("max_tokens", &w.MaxTokens, 0, maxTokens)
	f.Span("deadline", &w.Deadline, 0)
	if c := f.Child("client"); c != nil {
		r.client(c, &w.Client)
	}
	f.Done()
	return w
}

func (r *reader) arrivals(f *strict.Fields, a *Arrivals) {
	if f.Need("kind") {
		strict.Choose(f, "kind", &a.Kind, ArrivePoisson, ArriveClosed, ArriveBatch, ArriveTrace)
	}
	switch a.Kind {
	case ArrivePoisson:
		f.Need("rate")
		f.Ratio("rate", &a.Rate, 1, maxCount*PPM)
	case ArriveClosed:
		f.Need("users")
		f.Count("users", &a.Users, 1, maxCount)
		f.Span("think", &a.Think, 0)
		a.Steps = 1
		f.Count("steps", &a.Steps, 1, strict.MaxList)
		f.Count("restarts", &a.Restarts, 0, maxCount)
		if x := f.Child("walk"); x != nil {
			a.Walk = r.walk(x)
		}
	case ArriveBatch:
		f.Need("size")
		f.Need("every")
		f.Count("size", &a.Size, 1, strict.MaxList)
		a.Parallel = a.Size
		f.Count("parallel", &a.Parallel, 1, max(1, a.Size))
		f.Span("every", &a.Every, time.Millisecond)
	case ArriveTrace:
		a.Scale = PPM
		f.Need("file")
		f.Text("file", &a.File)
		f.Ratio("scale", &a.Scale, 1, maxRatio)
	default:
		return
	}
	f.Done()
}

func (r *reader) walk(f *strict.Fields) *Walk {
	w := &Walk{}
	f.Need("swing")
	f.Ratio("swing", &w.Swing, 0, PPM)
	f.Need("every")
	f.Span("every", &w.Every, time.Second)
	f.List("jumps", func(n ast.Node, path string) {
		c := r.Mapping(n, path)
		if c == nil {
			return
		}
		j := Jump{}
		agent := int64(0)
		for _, key := range []string{"at", "agent", "by"} {
			c.Need(key)
		}
		c.Span("at", &j.At, 0)
		c.Count("agent", &agent, 0, strict.MaxList)
		c.Count("by", &j.By, 1, maxCount)
		j.Agent = int(agent)
		c.Done()
		w.Jumps = append(w.Jumps, j)
	})
	f.Done()
	slices.SortStableFunc(w.Jumps, func(a, b Jump) int { return cmp.Compare(a.At, b.At) })
	return w
}

func (r *reader) size(f *strict.Fields, key string, s *Size, arrivals ArrivalKind) {
	c := f.Child(key)
	if c == nil {
		return
	}
	if c.Need("kind") {
		strict.Choose(c, "kind", &s.Kind, SizeFixed, SizeUniform, SizeChoice, SizeLognormal, SizeTrace)
	}
	switch s.Kind {
	case SizeFixed:
		c.Need("value")
		c.Count("value", &s.Value, 0, maxTokens)
	case SizeUniform:
		c.Need("min")
		c.Need("max")
		c.Count("min", &s.Min, 0, maxTokens)
		c.Count("max", &s.Max, s.Min, maxTokens)
	case SizeChoice:
		r.choice(c, s)
	case SizeLognormal:
		c.Need("mean")
		c.Count("mean", &s.Mean, 1, maxTokens)
		c.Ratio("cv", &s.CV, 0, 10*PPM)
	case SizeTrace:
		if arrivals != ArriveTrace {
			r.Fault(c.Node(), "%s.kind: trace sizes need trace arrivals", c.Path())
		}
	default:
		return
	}
	c.Done()
}

func (r *reader) choice(f *strict.Fields, s *Size) {
	f.Need("values")
	f.List("values", func(n ast.Node, path string) {
		if v, ok := r.Count(n, path, 0, maxTokens); ok {
			s.Values = append(s.Values, v)
		}
	})
	f.List("weights", func(n ast.Node, path string) {
		if v, ok := r.Ratio(n, path, 0, maxRatio); ok {
			s.Weights = append(s.Weights, v)
		}
	})
	if !f.Has("weights") {
		for range s.Values {
			s.Weights = append(s.Weights, PPM)
		}
	}
	total := int64(0)
	for _, w := range s.Weights {
		total += w
	}
	if len(s.Values) == 0 || len(s.Values) != len(s.Weights) || total == 0 {
		r.Fault(f.Node(), "%s: needs as many weights as values, at least one, and one above 0", f.Path())
	}
}

func (r *reader) client(f *strict.Fields, c *Client) {
	f.Span("timeout", &c.Timeout, 0)
	f.Count("pool", &c.Pool, 1, maxCount)
	f.Flag("stream", &c.Stream)
	if x := f.Child("retry"); x != nil {
		r.retry(x, &c.Retry)
	}
	f.Done()
}

func (r *reader) retry(f *strict.Fields, x *Retry) {
	if f.Need("kind") {
		strict.Choose(f, "kind", &x.Kind, RetryNone, RetryRequeue, RetryBackoff)
	}
	switch x.Kind {
	case RetryNone:
	case RetryRequeue:
		f.Need("after")
		f.Span("after", &x.After, time.Millisecond)
	case RetryBackoff:
		x.Multiplier, x.Max, x.Attempts = 2*PPM, 30*time.Second, 3
		f.Need("after")
		f.Span("after", &x.After, time.Millisecond)
		f.Ratio("multiplier", &x.Multiplier, PPM, maxRatio)
		f.Span("max", &x.Max, x.After)
		f.Ratio("jitter", &x.Jitter, 0, PPM)
		f.Count("attempts", &x.Attempts, 1, maxCount)
	default:
		return
	}
	f.Done()
}
