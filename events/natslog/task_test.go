package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/events"
	"weir/events/natslog"
	"weir/events/natslog/natstest"
)

func openTasks(t *testing.T, s *natstest.Server, l natslog.TaskLimits) {
	t.Helper()
	if err := natslog.OpenTasks(t.Context(), connect(t, s, natslog.Options{Name: "controller"}), "f", l); err != nil {
		t.Fatal(err)
	}
}

func tasksOf(t *testing.T, s *natstest.Server, agent string) *natslog.Tasks {
	t.Helper()
	k, err := natslog.NewTasks(connect(t, s, natslog.Options{Agent: agent}), "f", agent, "")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestTaskRecords writes, reads, lists and drops what is kept of tasks.
func TestTaskRecords(t *testing.T) {
	s := natstest.Start(t, nil)
	k := tasksOf(t, s, "a")
	if _, err := k.Swap(t.Context(), "job.x", []byte("1"), 0); err == nil {
		t.Error("tasks are kept that nobody made room for")
	}
	limits := natslog.TaskLimits{Bytes: 10 << 20, Age: time.Hour}
	openTasks(t, s, limits)
	openTasks(t, s, limits) // a controller that starts again
	if _, err := k.Get(t.Context(), "job.x"); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("a record that is not there: %v", err)
	}
	seq, err := k.Swap(t.Context(), "job.x", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := k.Swap(t.Context(), "job.x", []byte("1"), 0); err != nil || again != seq {
		t.Errorf("the same again: %d %v, want %d", again, err, seq)
	}
	if _, err := k.Swap(t.Context(), "job.x", []byte("2"), 0); !errors.Is(err, events.ErrConflict) {
		t.Errorf("another over it: %v", err)
	}
	next, err := k.Swap(t.Context(), "job.x", []byte("2"), seq)
	if err != nil || next <= seq {
		t.Errorf("over the one it names: %d %v", next, err)
	}
	if r, err := k.Get(t.Context(), "job.x"); err != nil || string(r.Data) != "2" || r.Seq != next || r.Key != "job.x" || r.Time.IsZero() {
		t.Errorf("%+v %v", r, err)
	}
	for n := range 1000 {
		if err := k.Set(t.Context(), fmt.Sprintf("state.u.0.%d", n), fmt.Append(nil, n)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := k.List(t.Context(), "state.u.0")
	if err != nil || len(list) != 1000 || string(list[7].Data) != "7" || list[7].Key != "state.u.0.7" {
		t.Errorf("%d records: %v", len(list), err)
	}
	if list, err = k.List(t.Context(), "state.u.1"); err != nil || len(list) != 0 {
		t.Errorf("%d records of none: %v", len(list), err)
	}
	for _, n := range []string{"0.1", "0.2", "1.3"} {
		if err := k.Set(t.Context(), "todo.3.u."+n, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	names, err := k.Names(t.Context(), "todo.3.u.0")
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"todo.3.u.0.1", "todo.3.u.0.2"}) {
		t.Errorf("names %v: %v", names, err)
	}
	for range 2 {
		if err := k.Drop(t.Context(), "job.x", next); err != nil {
			t.Errorf("drop: %v", err)
		}
	}
	if _, err := k.Get(t.Context(), "job.x"); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("a dropped record: %v", err)
	}
	if err := k.Set(t.Context(), "part.u.0.1.0", make([]byte, events.MaxEntry+2<<10)); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("a large record: %v", err)
	}
}

// TestTaskQueue takes from a lane, gives back, and takes again, over a restart
// of the server.
func TestTaskQueue(t *testing.T) {
	s := natstest.Start(t, nil)
	openTasks(t, s, natslog.TaskLimits{Bytes: 10 << 20, Age: time.Hour})
	a, b := tasksOf(t, s, "a"), tasksOf(t, s, "b")
	for n := range 2 {
		if err := a.Set(t.Context(), fmt.Sprintf("todo.3.u.0.%d", n), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if line, err := a.Line(t.Context(), 3); err != nil || line.Behind != 2 || line.Given != 0 {
		t.Errorf("line %+v %v", line, err)
	}
	one, two := next(t, a, 3), next(t, b, 3)
	if one.Key != "todo.3.u.0.0" || two.Key != "todo.3.u.0.1" || one.Times != 1 {
		t.Errorf("%+v %+v", one, two)
	}
	if err := errors.Join(one.Later(0), two.Done()); err != nil {
		t.Fatal(err)
	}
	if again := next(t, b, 3); again.Key != one.Key || again.Times != 2 {
		t.Errorf("given back: %+v", again)
	}
	s.Restart(t)
	last := next(t, a, 3) // its time is over, or the server forgot that it was given out
	if last.Key != one.Key {
		t.Errorf("after the restart: %+v", last)
	}
	if err := last.Done(); err != nil {
		t.Fatal(err)
	}
	if d, err := a.Next(t.Context(), 3, 4*time.Second); d != nil || err != nil {
		t.Errorf("from an empty lane: %+v %v", d, err)
	}
}

// next takes from a lane, however long that takes.
func next(t *testing.T, k *natslog.Tasks, lane int) *natslog.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for {
		d, err := k.Next(ctx, lane, 5*time.Second)
		if d != nil {
			return d
		}
		if ctx.Err() != nil {
			t.Fatalf("nothing comes from lane %d: %v", lane, err)
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond) // the server is on its way
		}
	}
}

// TestTaskWords tells all agents, and asks one.
func TestTaskWords(t *testing.T) {
	s := natstest.Start(t, nil)
	a, b := tasksOf(t, s, "a"), tasksOf(t, s, "b")
	heard := make(chan string, 10)
	stop, err := b.Hear(func(word string) { heard <- word })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := a.Ask(t.Context(), "b", "there?"); !errors.Is(err, natslog.ErrSilent) {
		t.Errorf("nobody listens: %v", err)
	}
	if stop, err = b.Answer(func(q string) string { return "re: " + q }); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if answer, err := a.Ask(t.Context(), "b", "there?"); err == nil && answer == "re: there?" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%q %v", answer, err)
		}
	}
	if err := a.Tell("word"); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "word" {
		t.Errorf("heard %q", got)
	}
	before := a.Steady(time.Now())
	s.Restart(t)
	stop()
	now := time.Now()
	for end := now.Add(20 * time.Second); !a.Steady(now).Equal(now); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("steady since %v, and before %v", a.Steady(now), before)
		}
	}
}
