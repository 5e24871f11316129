package agent

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/VictoriaMetrics/metrics"

	"weir/model"
)

// meter keeps how long requests took and waited. Client.mu guards it: what is
// counted is counted while the gate is asked anyway, so that a call takes one
// lock less for each of the two and nothing is looked up by name twice.
type meter struct {
	waits  times
	routes map[string]*routeTimes // "" for all that the fleet does not have
	// lately are the times of the route named name, which was looked for last.
	lately *routeTimes
	name   string
}

// ending is how a request ended: a class, or what else ended it.
type ending uint8

const (
	endedRefused = ending(model.NumClasses) + iota
	endedRuled
	endedUnsent
	endedMistake
	numEndings
)

// String returns the ending as it stands in metrics.
func (e ending) String() string {
	if e < endedRefused {
		return model.Class(e).String()
	}
	return [...]string{"refused", "ruled", "unsent", "mistake"}[e-endedRefused]
}

// endingOf returns how an attempt that is a request's last ends that.
func endingOf(o *model.Outcome) ending {
	switch {
	case o.Unsent:
		return endedUnsent
	case int(o.Class) >= model.NumClasses:
		return 0
	}
	return ending(o.Class)
}

// routeTimes are the times of a route's requests by how they ended, nil for what
// did not happen.
type routeTimes [numEndings]*times

// times counts durations, in seconds, by upper bounds.
type times struct {
	bounds []float64
	counts []uint64 // one more than bounds
	sum    float64
}

func newTimes(bounds []float64) *times {
	return &times{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// The bounds, in seconds: model calls last from a tenth of a second to minutes,
// waits from nothing to minutes.
func requestBounds() []float64 {
	return []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320}
}

func waitBounds() []float64 {
	return []float64{0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120}
}

func (t *times) add(d model.Nanos) {
	seconds := float64(d) / float64(model.Second)
	i := 0
	for i < len(t.bounds) && seconds > t.bounds[i] {
		i++
	}
	t.counts[i]++
	t.sum += seconds
}

// write writes a histogram; labels end with a comma where there are any.
func (t *times) write(w io.Writer, name, labels string) {
	var n uint64
	for i, bound := range t.bounds {
		n += t.counts[i]
		metrics.WriteCounterUint64(w, fmt.Sprintf("%s_bucket{%sle=\"%v\"}", name, labels, bound), n)
	}
	n += t.counts[len(t.bounds)]
	metrics.WriteCounterUint64(w, fmt.Sprintf("%s_bucket{%sle=\"+Inf\"}", name, labels), n)
	if labels != "" {
		labels = "{" + labels[:len(labels)-1] + "}"
	}
	metrics.WriteGaugeFloat64(w, name+"_sum"+labels, t.sum)
	metrics.WriteCounterUint64(w, name+"_count"+labels, n)
}

func newMeter() *meter {
	return &meter{routes: map[string]*routeTimes{}, waits: *newTimes(waitBounds())}
}

// ended notes that a request came to its end.
func (c *Client) ended(route string, how ending, took model.Nanos) {
	c.mu.Lock()
	c.meter.ended(c.fleet.Load(), route, how, took)
	c.mu.Unlock()
}

// ended counts a request under how it ended. Routes that the fleet does not have
// are counted together, since their names are the callers'.
func (m *meter) ended(f *fleet, route string, how ending, took model.Nanos) {
	if m.lately == nil || m.name != route {
		m.find(f, route)
	}
	t := m.lately[how]
	if t == nil {
		t = newTimes(requestBounds())
		m.lately[how] = t
	}
	t.add(took)
}

func (m *meter) find(f *fleet, route string) {
	m.name = route
	if f.routes[route] == nil {
		route = ""
	}
	m.lately = m.routes[route]
	if m.lately == nil {
		m.lately = &routeTimes{}
		m.routes[route] = m.lately
	}
}

// keep drops the times of routes that are no longer configured, which would
// grow with every push that renames one.
func (m *meter) keep(routes map[string]*model.RouteConfig) {
	m.lately = nil
	for name := range m.routes {
		if name != "" && routes[name] == nil {
			delete(m.routes, name)
		}
	}
}

// writeTimes writes how long requests took and waited, as of now.
func (c *Client) writeTimes(w io.Writer) {
	var b bytes.Buffer
	c.mu.Lock()
	c.meter.write(&b)
	c.mu.Unlock()
	_, _ = w.Write(b.Bytes()) // whoever asks sees that it failed
}

func (m *meter) write(w io.Writer) {
	m.waits.write(w, "weir_queue_seconds", "")
	for _, route := range slices.Sorted(maps.Keys(m.routes)) {
		for how, t := range m.routes[route] {
			if t != nil {
				t.write(w, "weir_request_seconds", fmt.Sprintf("route=%q,outcome=%q,", route, ending(how)))
			}
		}
	}
}
