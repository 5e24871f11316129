package incident

import (
	"time"

	"github.com/goccy/go-yaml/ast"
)

func (r *reader) workload(n ast.Node, path string, duration time.Duration) Workload {
	w := Workload{Priority: PriorityNormal, Stop: duration, Client: Client{Pool: Unlimited, Retry: Retry{Kind: RetryNone}}}
	f := r.mapping(n, path)
	if f == nil {
		return w
	}
	for _, key := range []string{"name", "route", "arrivals", "input_tokens", "output_tokens"} {
		f.need(key)
	}
	f.name("name", &w.Name)
	f.name("route", &w.Route)
	f.name("tenant", &w.Tenant)
	choose(f, "priority", &w.Priority, PriorityInteractive, PriorityNormal, PriorityBatch)
	if c := f.child("arrivals"); c != nil {
		c.arrivals(&w.Arrivals)
	}
	f.span("start", &w.Start, 0)
	f.span("stop", &w.Stop, 0)
	if w.Stop < w.Start {
		r.fault(n, "%s: stop is before start", path)
	}
	f.size("input_tokens", &w.InputTokens, w.Arrivals.Kind)
	f.size("output_tokens", &w.OutputTokens, w.Arrivals.Kind)
	f.count("max_tokens", &w.MaxTokens, 0, maxTokens)
	f.span("deadline", &w.Deadline, 0)
	if c := f.child("client"); c != nil {
		c.client(&w.Client)
	}
	f.done()
	return w
}

func (f *fields) arrivals(a *Arrivals) {
	if f.need("kind") {
		choose(f, "kind", &a.Kind, ArrivePoisson, ArriveClosed, ArriveBatch, ArriveTrace)
	}
	switch a.Kind {
	case ArrivePoisson:
		f.need("rate")
		f.ratio("rate", &a.Rate, 1, maxCount*PPM)
	case ArriveClosed:
		f.need("users")
		f.count("users", &a.Users, 1, maxCount)
		f.span("think", &a.Think, 0)
	case ArriveBatch:
		f.need("size")
		f.need("every")
		f.count("size", &a.Size, 1, maxList)
		a.Parallel = a.Size
		f.count("parallel", &a.Parallel, 1, max(1, a.Size))
		f.span("every", &a.Every, time.Millisecond)
	case ArriveTrace:
		a.Scale = PPM
		f.need("file")
		f.text("file", &a.File)
		f.ratio("scale", &a.Scale, 1, maxRatio)
	default:
		return
	}
	f.done()
}

func (f *fields) size(key string, s *Size, arrivals ArrivalKind) {
	c := f.child(key)
	if c == nil {
		return
	}
	if c.need("kind") {
		choose(c, "kind", &s.Kind, SizeFixed, SizeUniform, SizeChoice, SizeLognormal, SizeTrace)
	}
	switch s.Kind {
	case SizeFixed:
		c.need("value")
		c.count("value", &s.Value, 0, maxTokens)
	case SizeUniform:
		c.need("min")
		c.need("max")
		c.count("min", &s.Min, 0, maxTokens)
		c.count("max", &s.Max, s.Min, maxTokens)
	case SizeChoice:
		c.choice(s)
	case SizeLognormal:
		c.need("mean")
		c.count("mean", &s.Mean, 1, maxTokens)
		c.ratio("cv", &s.CV, 0, 10*PPM)
	case SizeTrace:
		if arrivals != ArriveTrace {
			f.r.fault(c.at, "%s.kind: trace sizes need trace arrivals", c.path)
		}
	default:
		return
	}
	c.done()
}

func (f *fields) choice(s *Size) {
	f.need("values")
	f.list("values", func(n ast.Node, path string) {
		if v, ok := f.r.count(n, path, 0, maxTokens); ok {
			s.Values = append(s.Values, v)
		}
	})
	f.list("weights", func(n ast.Node, path string) {
		if v, ok := f.r.ratio(n, path, 0, maxRatio); ok {
			s.Weights = append(s.Weights, v)
		}
	})
	if !f.has("weights") {
		for range s.Values {
			s.Weights = append(s.Weights, PPM)
		}
	}
	total := int64(0)
	for _, w := range s.Weights {
		total += w
	}
	if len(s.Values) == 0 || len(s.Values) != len(s.Weights) || total == 0 {
		f.r.fault(f.at, "%s: needs as many weights as values, at least one, and one above 0", f.path)
	}
}

func (f *fields) client(c *Client) {
	f.span("timeout", &c.Timeout, 0)
	f.count("pool", &c.Pool, 1, maxCount)
	if x := f.child("retry"); x != nil {
		x.retry(&c.Retry)
	}
	f.done()
}

func (f *fields) retry(x *Retry) {
	if f.need("kind") {
		choose(f, "kind", &x.Kind, RetryNone, RetryRequeue, RetryBackoff)
	}
	switch x.Kind {
	case RetryNone:
	case RetryRequeue:
		f.need("after")
		f.span("after", &x.After, time.Millisecond)
	case RetryBackoff:
		x.Multiplier, x.Max, x.Attempts = 2*PPM, 30*time.Second, 3
		f.need("after")
		f.span("after", &x.After, time.Millisecond)
		f.ratio("multiplier", &x.Multiplier, PPM, maxRatio)
		f.span("max", &x.Max, x.After)
		f.ratio("jitter", &x.Jitter, 0, PPM)
		f.count("attempts", &x.Attempts, 1, maxCount)
	default:
		return
	}
	f.done()
}
