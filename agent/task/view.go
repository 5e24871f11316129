package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"weir/events"
	"weir/events/natslog"
	"weir/model"
)

// view is a task as a client sees it.
type view struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	State   State         `json:"state"`
	Created int64         `json:"created_at"` // Unix seconds
	Expires int64         `json:"expires_at"`
	Counts  map[State]int `json:"counts"`
	// Place is how many items of all tasks stand before the task's first
	// queued one, at most; MinS and MaxS say how long it may take until its
	// last queued one is begun, null where nothing tells.
	Place *uint64    `json:"place,omitempty"`
	MinS  *float64   `json:"wait_min_s,omitempty"`
	MaxS  *float64   `json:"wait_max_s,omitempty"`
	Items []itemView `json:"items,omitempty"`
	// The rest is of a task of one request.
	*itemView
}

// itemView is an item as a client sees it.
type itemView struct {
	ID       string  `json:"custom_id,omitempty"`
	State    State   `json:"state,omitempty"`
	Tries    int     `json:"tries,omitempty"`
	Waits    int     `json:"waits,omitempty"`
	Repeated int     `json:"repeated,omitempty"`
	Class    string  `json:"class,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	WaitS    float64 `json:"wait_s,omitempty"`
	Result   *answer `json:"result,omitempty"`
}

// answer is what the call was answered.
type answer struct {
	Status  int             `json:"status_code"`
	Request string          `json:"request_id,omitempty"`
	Body    json.RawMessage `json:"body"` // a string where the answer is no JSON
}

// states returns what the items have come to, those of which nothing is kept
// as queued or, when their request is gone too, as expired.
func (d *room) states(ctx context.Context, j *job) ([]status, error) {
	all := make([]status, j.Items)
	for from := 0; from < j.Items; from += group {
		if err := d.readGroup(ctx, j, from/group, all); err != nil {
			return nil, err
		}
		part := all[from:min(from+group, j.Items)]
		if !slices.ContainsFunc(part, status.none) {
			continue
		}
		queued, err := d.keep.Names(ctx, fmt.Sprintf("todo.%d.%s.%d", j.Lane, j.UID, from/group))
		if err != nil {
			return nil, err
		}
		waits := map[int]bool{}
		for _, key := range queued {
			if n, ok := lastToken(key); ok {
				waits[n] = true
			}
		}
		for i := range part {
			if part[i].none() && waits[from+i] {
				part[i].State = Queued
			}
		}
		if slices.ContainsFunc(part, status.none) { // it may have ended between the two looks
			if err := d.readGroup(ctx, j, from/group, all); err != nil {
				return nil, err
			}
		}
	}
	_ = d.keep.SetClock(ctx) // else the own clock must do
	overdue(j, all, d.keep.Now())
	return all, nil
}

// readGroup reads what is kept of the states of a group of items.
func (d *room) readGroup(ctx context.Context, j *job, n int, all []status) error {
	records, err := d.keep.List(ctx, fmt.Sprintf("state.%s.%d", j.UID, n))
	if err != nil {
		return err
	}
	for _, r := range records {
		if n, ok := lastToken(r.Key); ok && n < j.Items {
			if all[n], err = readStatus(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// none reports whether nothing is known of an item.
func (s status) none() bool { return s.State == "" }

// overdue gives the items of which nothing was found, and those that nobody
// will begin any more, their state.
func overdue(j *job, all []status, now time.Time) {
	for n := range all {
		s := &all[n]
		if s.none() {
			s.State = Expired
		}
		switch {
		case s.State.ended() || s.State == Running:
		case j.Ended != 0:
			s.State, s.Reason = Canceled, "canceled by the client"
		case now.UnixNano() >= j.Expires:
			s.State, s.Reason = Expired, "the task's age is reached"
		}
	}
}

// view looks at a task.
func (d *room) view(ctx context.Context, j *job) (*view, error) {
	all, err := d.states(ctx, j)
	if err != nil {
		return nil, err
	}
	v := &view{ID: j.ID, Object: "weir.task", Created: j.Created / 1e9, Expires: j.Expires / 1e9, Counts: map[State]int{}}
	for _, s := range all {
		v.Counts[s.State]++
	}
	v.State = together(v.Counts)
	if v.Counts[Queued] > 0 {
		d.foresee(ctx, j, all, v)
	}
	if j.Single {
		one := show(&all[0], d.keep.Now())
		one.State = "" // the task's
		if one.Result, err = d.answerOf(ctx, j, 0, &all[0]); err != nil {
			return nil, err
		}
		v.itemView = &one
		return v, nil
	}
	names, err := d.names(ctx, j)
	if err != nil {
		return nil, err
	}
	now := d.keep.Now()
	for n := range all {
		one := show(&all[n], now)
		one.ID = names(n)
		v.Items = append(v.Items, one)
	}
	return v, nil
}

// together is the state of a task by those of its items.
func together(counts map[State]int) State {
	for _, s := range [...]State{Running, Queued, Waiting, Failed, Expired, Canceled} {
		if counts[s] == 0 {
			continue
		}
		if s == Queued && counts[Completed]+counts[Failed]+counts[Waiting] > 0 {
			return Running // it has begun
		}
		return s
	}
	return Completed
}

func show(s *status, now time.Time) itemView {
	v := itemView{State: s.State, Tries: s.Tries, Waits: s.Waits, Repeated: s.Repeated, Class: s.Class, Reason: s.Reason}
	if wait := instant(s.Until).Sub(now); s.State == Waiting && wait > 0 {
		v.WaitS = wait.Round(time.Millisecond).Seconds()
	}
	return v
}

// names returns how the client calls the items.
func (d *room) names(ctx context.Context, j *job) (func(n int) string, error) {
	var list []string
	if j.Named {
		r, err := d.keep.Get(ctx, "job.names-"+j.UID)
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			if err := json.Unmarshal(r.Data, &list); err != nil {
				return nil, fmt.Errorf("%w: %w", errRecord, err)
			}
		}
	}
	return func(n int) string {
		if n < len(list) {
			return list[n]
		}
		return strconv.Itoa(n)
	}, nil
}

// answerOf returns the answer of an item, nil for none.
func (d *room) answerOf(ctx context.Context, j *job, n int, s *status) (*answer, error) {
	if s.HTTP == 0 || !s.State.ended() {
		return nil, nil
	}
	a := &answer{Status: s.HTTP, Request: s.Request, Body: json.RawMessage("null")}
	if s.Size == 0 {
		return a, nil
	}
	parts, err := d.keep.List(ctx, partsKey(j.UID, n, s.Parts))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(parts, func(a, b natslog.Record) int {
		x, _ := lastToken(a.Key)
		y, _ := lastToken(b.Key)
		return x - y
	})
	body := make([]byte, 0, min(s.Size, MaxAnswer))
	for _, p := range parts {
		body = append(body, p.Data...)
	}
	switch {
	case len(body) != s.Size: // pieces of it gave way to newer answers
		return nil, nil
	case json.Valid(body):
		a.Body = body
	default:
		a.Body = encode(string(body))
	}
	return a, nil
}

// foresee says where a task stands and how long it may take.
func (d *room) foresee(ctx context.Context, j *job, all []status, v *view) {
	line, err := d.keep.Line(ctx, j.Lane)
	if err != nil {
		return // nothing is known
	}
	firstQueued := slices.IndexFunc(all, func(s status) bool { return s.State == Queued })
	span := j.Last - min(j.First, j.Last)
	at := j.First + span*uint64(firstQueued)/uint64(max(1, j.Items-1))
	place := min(line.Behind, at-min(at, line.Given))
	v.Place = &place
	now := time.Now()
	d.mu.Lock()
	p := &d.paces[j.Lane]
	p.see(now, line.Given)
	each, known := p.each(now)
	d.mu.Unlock()
	priority, ok := model.ParsePriority(j.Header["X-Weir-Priority"])
	if !ok {
		priority = model.PriorityBatch
	}
	least := time.Duration(0)
	if ahead, ok := d.o.Client.Forecast(j.Route, priority); ok {
		least = ahead.Least
	}
	v.MinS = new(least.Seconds())
	if known {
		behind := min(line.Behind+uint64(ahead), j.Last-min(j.Last, line.Given))
		v.MaxS = new((least + paceDoubt*time.Duration(behind+1)*each).Seconds())
	}
}

// paceDoubt is by how much a queue's pace, seen over some minutes, may be wrong.
const paceDoubt = 2

// pace is how fast a lane has moved: places in its stream over time.
type pace struct {
	seen [16]struct {
		at    time.Time
		given uint64
	}
	n int
}

// paceSpan is how far back a pace looks, paceStep how far its looks are apart
// at least.
const (
	paceSpan = 5 * time.Minute
	paceStep = paceSpan / 16
)

// see takes a look at the lane.
func (p *pace) see(now time.Time, given uint64) {
	size := len(p.seen)
	if p.n > 0 {
		if last := &p.seen[(p.n-1)%size]; given < last.given || p.n > 1 && now.Sub(p.seen[(p.n-2)%size].at) < paceStep {
			*last = struct {
				at    time.Time
				given uint64
			}{now, max(given, last.given)}
			return
		}
	}
	p.seen[p.n%size].at, p.seen[p.n%size].given = now, given
	p.n++
}

// each returns the time per place over the last minutes.
func (p *pace) each(now time.Time) (time.Duration, bool) {
	size := len(p.seen)
	if p.n < 2 {
		return 0, false
	}
	last := &p.seen[(p.n-1)%size]
	for i := max(0, p.n-size); i < p.n-1; i++ {
		if s := &p.seen[i%size]; now.Sub(s.at) <= paceSpan && last.given > s.given {
			return now.Sub(s.at) / time.Duration(last.given-s.given), true
		}
	}
	return 0, false
}

// pace notes that an item was given out.
func (d *room) pace(got *natslog.Delivery) {
	it, ok := laneFromKey(got.Key)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paces[it].see(time.Now(), got.Seq)
}

func laneFromKey(key string) (lane int, ok bool) {
	_, err := fmt.Sscanf(key, "todo.%d.", &lane)
	return lane, err == nil && lane >= 0 && lane < natslog.TaskLanes
}
