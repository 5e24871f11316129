package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"weir/agent"
	"weir/events"
	"weir/events/natslog"
)

// Options are what a Desk is made from. All but Log are required.
type Options struct {
	// Keep is where tasks are kept: the rooms that this agent may use, of
	// different tenants. The tasks of a tenant without one are in the empty
	// tenant's.
	Keep []*natslog.Tasks
	// Client admits the calls, Calls makes them: its transport.
	Client *agent.Client
	Calls  http.RoundTripper
	// Age is how long a task may take, and how long its answers are kept
	// after that.
	Age time.Duration
	// Metrics takes the desk's metrics.
	Metrics *metrics.Set
	// Log takes trouble with the bus; nil drops it.
	Log *slog.Logger
}

// The bounds of what a desk does at once.
const (
	maxRunning = 64          // calls, beside one item per lane that is waited for
	ahead      = 8           // items that wait for the gate, so that it knows of the demand
	maxPosting = 4 * MaxPost // bytes of tasks being taken in
	maxWaiters = 1000
)

// Desk takes tasks in, works on them and tells of them. What bounds it holds
// for all rooms together.
type Desk struct {
	o     Options
	boot  string
	rooms map[string]*room // by tenant
	// slots bound the items that are in hand, turns those of them that the
	// gate has not let through yet.
	slots, turns chan struct{}
	posting      atomic.Int64 // bytes of the tasks being taken in
	waiters      chan struct{}
	ending       chan struct{} // closed when Run shall end

	accepted, repeats, lost *metrics.Counter
	ended                   map[State]*metrics.Counter
}

// room is the desk's work with the tasks of one room.
type room struct {
	*Desk
	keep *natslog.Tasks

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // by item
	blocked map[string]time.Time               // by tenant and route, until when
	silent  map[string]silence                 // by agent and boot
	watch   map[string]map[chan struct{}]bool  // who waits for a task's news, by its uid
	paces   [natslog.TaskLanes]pace
	told    bool // trouble with the bus was logged
}

// New returns a desk. Run makes it work on tasks; without, it only takes them
// in and tells of them.
func New(o Options) *Desk {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Desk{
		o: o, boot: draw(), rooms: map[string]*room{}, waiters: make(chan struct{}, maxWaiters), ending: make(chan struct{}),
		accepted: o.Metrics.GetOrCreateCounter("weir_task_items_accepted_total"),
		repeats:  o.Metrics.GetOrCreateCounter("weir_task_repeated_calls_total"),
		lost:     o.Metrics.GetOrCreateCounter("weir_task_answers_lost_total"),
		ended:    map[State]*metrics.Counter{},
	}
	lanes := 0
	for _, keep := range o.Keep {
		lanes += keep.Lanes()
		d.rooms[keep.Tenant()] = &room{
			Desk: d, keep: keep, running: map[string]context.CancelCauseFunc{}, blocked: map[string]time.Time{},
			silent: map[string]silence{}, watch: map[string]map[chan struct{}]bool{},
		}
	}
	d.slots, d.turns = make(chan struct{}, maxRunning+lanes), make(chan struct{}, ahead+lanes)
	for _, s := range []State{Completed, Failed, Canceled, Expired} {
		d.ended[s] = o.Metrics.GetOrCreateCounter(fmt.Sprintf("weir_task_items_ended_total{state=%q}", s))
	}
	o.Metrics.NewGauge(`weir_bound_used_ratio{bound="task_bodies"}`, func() float64 { return float64(d.posting.Load()) / maxPosting })
	o.Metrics.NewGauge(`weir_bound_used_ratio{bound="task_waiters"}`, func() float64 { return float64(len(d.waiters)) / maxWaiters })
	o.Metrics.NewGauge("weir_task_items_running", func() float64 {
		n := 0
		for _, r := range d.rooms {
			r.mu.Lock()
			n += len(r.running)
			r.mu.Unlock()
		}
		return float64(n)
	})
	return d
}

// of returns the room of an owner's tasks, nil where this agent may not use it.
func (d *Desk) of(owner string) *room {
	if tenant, ok := strings.CutPrefix(owner, OfTenant); ok && d.rooms[tenant] != nil {
		return d.rooms[tenant]
	}
	return d.rooms[""]
}

// put keeps a task that was asked for under its owner's id and returns it, or
// the one that is there. errReuse says that that is another.
func (d *room) put(ctx context.Context, owner string, a *asked) (*job, error) {
	key, print := jobKey(owner, a.id), a.print()
	switch j, _, err := d.job(ctx, key); {
	case err == nil && j.Print != print:
		return nil, errReuse
	case err == nil:
		return j, nil
	case !errors.Is(err, events.ErrNotFound):
		return nil, err
	}
	if err := d.keep.SetClock(ctx); err != nil {
		return nil, err
	}
	now := d.keep.Now()
	j := &job{
		V: recordVersion, ID: a.id, Owner: jobKey(owner, ""), UID: draw(), Print: print, Items: len(a.items), Lane: d.laneOf(owner), Route: a.items[0].Route,
		Named: a.named, Single: a.single, Created: now.UnixNano(), Expires: now.Add(d.o.Age).UnixNano(), Header: a.header,
	}
	if err := d.putItems(ctx, key, j, a); err != nil {
		d.withdraw(key, j)
		return nil, err
	}
	if _, err := d.keep.Swap(ctx, "job."+key, encode(j), 0); err != nil {
		if !errors.Is(err, events.ErrConflict) {
			return nil, err // it may be there: whoever asks again will see
		}
		d.withdraw(key, j)
		switch j, _, err = d.job(ctx, key); {
		case err != nil:
			return nil, err
		case j.Print != print:
			return nil, errReuse
		}
		return j, nil
	}
	d.accepted.Add(len(a.items))
	return j, nil
}

// errReuse says that an id stands for another task.
var errReuse = errors.New("task: the id was used for another task")

// errGone says that there is no such task.
var errGone = errors.New("task: no such task")

// putItems writes the items and the names of a task.
func (d *room) putItems(ctx context.Context, key string, j *job, a *asked) error {
	if a.named {
		if err := d.keep.Set(ctx, "job.names-"+j.UID, encode(a.names)); err != nil {
			return err
		}
	}
	const writers = 8
	var mu sync.Mutex
	var fault error
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := w; n < len(a.items); n += writers {
				it := a.items[n]
				it.Key, it.UID, it.Tenant = key, j.UID, a.header["X-Weir-Tenant"]
				seq, err := d.keep.Swap(ctx, todoKey(j.Lane, j.UID, n), it.encode(), 0)
				mu.Lock()
				if n == 0 {
					j.First = seq
				}
				j.Last = max(j.Last, seq)
				fault = errors.Join(fault, err)
				stop := fault != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	all.Wait()
	return fault
}

// withdraw removes what was written of a task that did not come to be. What
// stays is dropped by whoever is given it.
func (d *room) withdraw(key string, j *job) {
	ctx, cancel := context.WithTimeout(context.Background(), busWithin)
	defer cancel()
	if held, _, err := d.job(ctx, key); err == nil && held.UID == j.UID {
		return
	}
	_ = d.dropItems(ctx, j)
}

// dropItems removes the requests and names of a task.
func (d *room) dropItems(ctx context.Context, j *job) error {
	for n := range j.Items {
		if err := d.dropItem(ctx, j, n); err != nil {
			return err
		}
	}
	if j.Named {
		return d.drop(ctx, "job.names-"+j.UID)
	}
	return nil
}

func (d *room) dropItem(ctx context.Context, j *job, n int) error {
	return d.drop(ctx, todoKey(j.Lane, j.UID, n))
}

// drop removes a record, whichever it is.
func (d *room) drop(ctx context.Context, key string) error {
	r, err := d.keep.Get(ctx, key)
	switch {
	case errors.Is(err, events.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return d.keep.Drop(ctx, key, r.Seq)
}

// job returns a task and where its record stands.
func (d *room) job(ctx context.Context, key string) (*job, uint64, error) {
	r, err := d.keep.Get(ctx, "job."+key)
	if err != nil {
		return nil, 0, err
	}
	j, err := decodeJob(r.Data, d.keep.Lanes())
	return j, r.Seq, err
}

// find returns an owner's task, or errGone.
func (d *room) find(ctx context.Context, owner, id string) (key string, j *job, seq uint64, err error) {
	key = jobKey(owner, id)
	j, seq, err = d.job(ctx, key)
	if errors.Is(err, events.ErrNotFound) {
		err = errGone
	}
	return key, j, seq, err
}

// state returns what an item has come to; the zero status for nothing yet.
func (d *room) state(ctx context.Context, uid string, n int) (status, error) {
	r, err := d.keep.Get(ctx, stateKey(uid, n))
	switch {
	case errors.Is(err, events.ErrNotFound):
		return status{}, nil
	case err != nil:
		return status{}, err
	}
	return readStatus(r)
}

func readStatus(r natslog.Record) (s status, err error) {
	if err = decode(r.Data, &s, &s.V); err == nil && min(s.Round, s.Tries, s.Waits, s.Repeated, s.HTTP, s.Size) < 0 {
		err = errRecord
	}
	s.seq = r.Seq
	return s, err
}

// cancel ends a task: what is queued is not begun, what runs is broken off.
func (d *room) cancel(ctx context.Context, owner, id string) (*job, error) {
	for {
		key, j, seq, err := d.find(ctx, owner, id)
		if err != nil || j.Ended != 0 {
			return j, err
		}
		j.Ended = d.keep.Now().UnixNano()
		_, err = d.keep.Swap(ctx, "job."+key, encode(j), seq)
		if errors.Is(err, events.ErrConflict) {
			continue
		}
		if err == nil {
			d.news("cancel", j.UID)
		}
		return j, err
	}
}

// errOver says that a task was canceled, so that nothing of it can be repeated.
var errOver = errors.New("task: it was canceled")

// repeat queues the failed items of a task again and returns how many.
func (d *room) repeat(ctx context.Context, owner, id string) (*job, int, error) {
	key, j, seq, err := d.find(ctx, owner, id)
	switch {
	case err != nil:
		return nil, 0, err
	case j.Ended != 0:
		return nil, 0, errOver
	}
	all, err := d.states(ctx, j)
	if err != nil {
		return nil, 0, err
	}
	if err := d.keep.SetClock(ctx); err != nil {
		return nil, 0, err
	}
	expires := d.keep.Now().Add(d.o.Age).UnixNano()
	j.Expires = expires // before the items, or they might be given out and found too old
	for tries := 0; ; tries++ {
		if _, err = d.keep.Swap(ctx, "job."+key, encode(j), seq); !errors.Is(err, events.ErrConflict) || tries == 3 {
			break
		}
		if j, seq, err = d.job(ctx, key); err != nil || j.Ended != 0 {
			return nil, 0, errors.Join(err, errOver)
		}
		j.Expires = expires
	}
	if err != nil {
		return nil, 0, err
	}
	count := 0
	for n, s := range all {
		if s.State != Failed {
			continue
		}
		did, err := d.repeatItem(ctx, j, n, s)
		if err != nil {
			return nil, count, err
		}
		if did {
			count++
		}
	}
	return j, count, nil
}

// repeatItem puts a failed item into the queue again, unless its request is
// gone or another did so.
func (d *room) repeatItem(ctx context.Context, j *job, n int, s status) (bool, error) {
	key := todoKey(j.Lane, j.UID, n)
	r, err := d.keep.Get(ctx, key)
	if errors.Is(err, events.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	it, err := decodeItem(r.Data)
	if err != nil || it.Round != s.Round {
		return false, err
	}
	it.Round++
	if _, err := d.keep.Swap(ctx, key, it.encode(), r.Seq); err != nil {
		if errors.Is(err, events.ErrConflict) {
			err = nil
		}
		return false, err
	}
	again := status{V: recordVersion, State: Queued, Round: it.Round, At: d.keep.Now().UnixNano(), Repeated: s.Repeated}
	_, err = d.keep.Swap(ctx, stateKey(j.UID, n), encode(again), s.seq)
	if errors.Is(err, events.ErrConflict) {
		err = nil // somebody has begun with it
	}
	return true, err
}

// news tells all agents about a task; here it is heard as everywhere.
func (d *room) news(what, uid string) {
	_ = d.keep.Tell(what + " " + uid) // who waits looks by itself from time to time
}
