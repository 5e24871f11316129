package task

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"weir/events/natslog"
)

const (
	// busWithin bounds one step at the bus.
	busWithin = 10 * time.Second
	// fetchFor is how long a lane is asked for an item at once.
	fetchFor = 10 * time.Second
	// busPause is the wait after trouble with the bus.
	busPause = 250 * time.Millisecond
	// drain is how long calls in flight may go on once the desk shall end.
	drain = 8 * time.Second
)

// What breaks a call off from this side.
var (
	errCanceled = errors.New("task: canceled by the client")
	errStopped  = errors.New("task: the agent ends")
)

// Run works on tasks until ctx ends, then lets the calls in flight end, for a
// while. It is called once at most.
func (d *Desk) Run(ctx context.Context) {
	for _, r := range d.rooms {
		stop, err := r.hear()
		if err != nil { // the connection is closed for good
			d.o.Log.Error("tasks are not worked on", slog.Any("error", err))
			return
		}
		defer stop()
	}
	defer context.AfterFunc(ctx, func() { close(d.ending) })()
	calls, stopCalls := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopCalls(errStopped)
	var lanes, items sync.WaitGroup
	for _, r := range d.rooms {
		for lane := range r.keep.Lanes() {
			lanes.Go(func() { r.lane(ctx, calls, lane, &items) })
		}
	}
	lanes.Wait()
	late := time.AfterFunc(drain, func() { stopCalls(errStopped) })
	defer late.Stop()
	items.Wait()
}

// hear takes the words of other agents, and answers them, until stop is called.
func (d *room) hear() (stop func(), err error) {
	stopNews, err := d.keep.Hear(d.heard)
	if err != nil {
		return nil, err
	}
	stopAnswers, err := d.keep.Answer(d.answer)
	if err != nil {
		stopNews()
		return nil, err
	}
	return func() { stopAnswers(); stopNews() }, nil
}

// lane takes items from a lane until ctx ends and works on them under calls.
func (d *room) lane(ctx, calls context.Context, lane int, items *sync.WaitGroup) {
	for take(ctx, d.slots) {
		if !take(ctx, d.turns) {
			<-d.slots
			return
		}
		got, err := d.keep.Next(ctx, lane, fetchFor)
		if got == nil {
			<-d.turns
			<-d.slots
			d.trouble(ctx, err)
			continue
		}
		d.trouble(ctx, nil)
		items.Go(func() {
			defer func() { <-d.slots }()
			d.work(calls, got)
		})
	}
}

// take takes a place; it reports false when ctx has ended.
func take(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return ctx.Err() == nil || func() bool { <-places; return false }()
	case <-ctx.Done():
		return false
	}
}

// trouble tells of trouble with the bus once, until there is none, and waits a
// little after it.
func (d *room) trouble(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	again := d.told
	d.told = err != nil
	d.mu.Unlock()
	if err == nil {
		return
	}
	if !again {
		d.o.Log.Warn("tasks cannot be taken from their stream, will repeat; has the controller agent.tasks too?", slog.Any("error", err))
	}
	select {
	case <-ctx.Done():
	case <-time.After(busPause):
	}
}

// heard takes a word of another agent, or its own.
func (d *room) heard(word string) {
	what, uid, _ := strings.Cut(word, " ")
	d.mu.Lock()
	defer d.mu.Unlock()
	if what == "cancel" {
		for name, stop := range d.running {
			if strings.HasPrefix(name, uid+" ") {
				stop(errCanceled)
			}
		}
	}
	for ch := range d.watch[uid] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// watching returns a channel that gets something when there is news of a task.
func (d *room) watching(uid string) (news chan struct{}, stop func()) {
	news = make(chan struct{}, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watch[uid] == nil {
		d.watch[uid] = map[chan struct{}]bool{}
	}
	d.watch[uid][news] = true
	return news, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.watch[uid], news); len(d.watch[uid]) == 0 {
			delete(d.watch, uid)
		}
	}
}

// work works on one item that this agent was given.
func (d *room) work(calls context.Context, got *natslog.Delivery) {
	w := &worker{room: d, calls: calls, got: got}
	w.turn = sync.OnceFunc(func() { <-d.turns })
	defer w.turn()
	if got.Times == 1 {
		d.pace(got)
	}
	it, err := decodeItem(got.Data)
	if err != nil {
		d.o.Log.Error("an item of a task cannot be read and is dropped")
		_ = d.keep.Drop(calls, got.Key, got.Seq) // its age ends it too
		_ = got.Done()
		return
	}
	w.item, w.name = it, itemName(it.UID, it.N)
	ctx, stop := context.WithCancelCause(calls)
	defer stop(nil)
	if !d.begin(w.name, stop) { // it is in hand here already
		_ = got.Later(natslog.Beat)
		return
	}
	defer d.end(w.name)
	beat := w.beat(ctx)
	defer beat()
	w.settle(w.run(ctx))
}

func (d *room) begin(name string, stop context.CancelCauseFunc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running[name] != nil {
		return false
	}
	d.running[name] = stop
	return true
}

func (d *room) end(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, name)
}

// beat says that the item is being worked on until the function it returns is
// called.
func (w *worker) beat(ctx context.Context) func() {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(natslog.Beat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = w.got.Working() // without it somebody else is given the item, and asks
			}
		}
	})
	return func() { stop(); all.Wait() }
}
