package calibrate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/workload"
)

// Options are what a log does not hold.
type Options struct {
	// Name is the incident's; "recorded" if empty.
	Name string
	// Agents is how many processes sent the calls, at least 1.
	Agents int
	// Deadline is how long an answer is of use, 0 for ever.
	Deadline time.Duration
	// Config is what Weir was told when it made the log; nil if it did not.
	Config *model.Config
	// Params were in force then; nil for the defaults.
	Params *model.Params
	// Observed is set when Weir only looked on, so that nothing was decided by
	// it though it was told.
	Observed bool
}

// World is a calibrated incident.
type World struct {
	// Text is the incident file, with the intervals as comments.
	Text     string
	Incident *incident.Incident
	// Traces are the arrivals that it names.
	Traces map[string]workload.Trace
	Report Report
}

// Report is what was estimated, and how sure that is.
type Report struct {
	Calls    int    `json:"calls"`
	LeftOut  uint64 `json:"left_out"`
	Odd      uint64 `json:"odd"`
	Requests int    `json:"requests"`
	// Never is how many requests never got an answer: how long it would have
	// been is taken from others of the same workload.
	Never     int        `json:"never_answered"`
	From      time.Time  `json:"from"`
	Duration  float64    `json:"duration_s"`
	Providers []Provider `json:"providers"`
	Notes     []string   `json:"notes"`
	// Check compares the recorded with the re-simulated, nil before.
	Check *Check `json:"check,omitempty"`
}

// stream is one workload.
type stream struct {
	name, route, tenant string
	rows                workload.Trace
	first               int64 // ns since the log's first call
	lastOutput          int64
}

// request is all that is known of one.
type request struct {
	wanted        model.Nanos // when the application asked
	input, output int64
	answered      bool
	done          model.Nanos // end of the answer
	tries         int
	ended         model.Nanos // of the last try, or the answer
	firstEnd      model.Nanos // of the first try
	secondAt      model.Nanos // sending of the second
	route, tenant uint8
}

// requests puts the attempts of each request together, in order of the first.
func (l *Log) requests() []request {
	l.sort()
	at := map[uint64]int{}
	var all []request
	for i := range l.calls {
		c := &l.calls[i]
		k, known := at[c.request]
		if c.request == 0 || !known {
			k = len(all)
			all = append(all, request{wanted: c.sent - c.queued, input: c.input, route: c.route, tenant: c.tenant, firstEnd: c.end()})
			if c.request != 0 {
				at[c.request] = k
			}
		}
		r := &all[k]
		r.tries++
		if r.tries == 2 {
			r.secondAt = c.sent
		}
		r.input = max(r.input, c.input)
		if model.Class(c.class) == model.ClassOK && !r.answered {
			r.answered, r.output, r.done = true, c.output, c.end()
		}
		r.ended = max(r.ended, c.end())
	}
	return all
}

// maxStreams bounds the workloads of a world.
const maxStreams = 16

// streams are the requests as workloads, one for each route and tenant; the
// smallest of many are one.
func (l *Log) streams(requests []request, begin model.Nanos) (list []*stream, never int) {
	type key struct{ route, tenant uint8 }
	size := map[key]int{}
	for i := range requests {
		size[key{requests[i].route, requests[i].tenant}]++
	}
	keys := make([]key, 0, len(size))
	for k := range size {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a.route, b.route), cmp.Compare(a.tenant, b.tenant))
	})
	of := map[key]*stream{}
	used := map[string]bool{}
	for i, k := range keys {
		if i >= maxStreams && of[key{k.route, 255}] != nil {
			of[k] = of[key{k.route, 255}]
			continue
		}
		s := &stream{route: l.routes.list[k.route], tenant: l.names.list[k.tenant]}
		if i >= maxStreams {
			s.tenant = Others
			of[key{k.route, 255}] = s
		}
		s.name = unique(used, fileName(s.route)+"-"+fileName(s.tenant))
		of[k] = s
		list = append(list, s)
	}
	for i := range requests {
		r := &requests[i]
		s := of[key{r.route, r.tenant}]
		if r.answered {
			s.lastOutput = r.output
		} else {
			never++
		}
		output := r.output
		if !r.answered {
			output = s.lastOutput
		}
		at := int64(max(r.wanted-begin, 0))
		if n := len(s.rows); n > 0 && at <= s.rows[n-1].At {
			at = s.rows[n-1].At + 1000 // what shares an instant stays together
		}
		s.rows = append(s.rows, workload.Row{At: at, Input: r.input, Output: output})
	}
	for _, s := range list {
		s.first = s.rows[0].At
		for i := range s.rows {
			s.rows[i].At -= s.first
		}
	}
	return list, never
}

// fileName makes a name that incident files and file systems take.
func fileName(s string) string {
	s = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, s[:min(len(s), 40)])
	if s = strings.Trim(s, "."); s == "" {
		return "none"
	}
	return s
}

func unique(used map[string]bool, name string) string {
	for n, base := 2, name; used[name]; n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	used[name] = true
	return name
}

// TraceName is the name of a workload's trace file beside the incident.
func (s *stream) file(world string) string { return fmt.Sprintf("%s.%s.csv", world, s.name) }
