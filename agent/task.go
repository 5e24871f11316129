package agent

import (
	"container/list"
	"sync"
	"time"

	"weir/model"
)

// maxTasks bounds the tasks that are remembered; the one whose last call is
// oldest is forgotten first. maxTaskName bounds a task's name, in bytes.
const (
	maxTasks    = 10_000
	maxTaskName = 128
)

// TaskConfig bounds what one task, the chained calls that carry the same
// X-Weir-Task, may spend on failure. Retries of each call on its own multiply
// along a chain: thirty steps of three tries each, repeated twice by the
// application, are 180 attempts. With a task there are at most as many
// attempts as successes, plus Retries, plus one.
type TaskConfig struct {
	// Retries is the attempts that may follow a failed one, over all calls; 0
	// means 5, negative none.
	Retries int
	// Total is the time from the first call to the end of the last; 0 means
	// 10 minutes.
	Total time.Duration
	// Parallel is the calls of the task that may be on their way at the same
	// time, those that wait for a turn included; more wait for one of them to
	// end. 0 sets no bound.
	Parallel int
}

func (c TaskConfig) withDefaults() TaskConfig {
	if c.Retries == 0 {
		c.Retries = 5
	}
	c.Retries = max(c.Retries, 0)
	if c.Total <= 0 {
		c.Total = 10 * time.Minute
	}
	return c
}

// tasks are the tasks that calls belong to.
type tasks struct {
	cfg TaskConfig

	mu  sync.Mutex
	by  map[string]*list.Element
	age list.List // of *task, the one called last at the back
}

// task is one chain of calls. Its owner's lock guards it.
type task struct {
	owner   *tasks
	name    string
	began   time.Time
	retries int  // that are left
	failed  bool // the last attempt that ended failed
	// running has an entry for each call on its way; nil where there is no
	// bound.
	running chan struct{}
}

func newTasks(c TaskConfig) *tasks {
	return &tasks{cfg: c.withDefaults(), by: map[string]*list.Element{}}
}

// get returns the task of that name and when its last call must have ended.
// The task begins now if there was none, or if that one has been over for as
// long as it might last: names are used again.
func (s *tasks) get(name string, now time.Time) (t *task, ends time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.by[name]; at != nil {
		s.age.MoveToBack(at)
		t = at.Value.(*task)
		if now.Sub(t.began) >= 2*s.cfg.Total {
			t.began, t.retries, t.failed = now, s.cfg.Retries, false
		}
		return t, t.began.Add(s.cfg.Total)
	}
	for s.age.Len() >= maxTasks {
		oldest := s.age.Front()
		delete(s.by, oldest.Value.(*task).name)
		s.age.Remove(oldest)
	}
	t = &task{owner: s, name: name, began: now, retries: s.cfg.Retries}
	if s.cfg.Parallel > 0 {
		t.running = make(chan struct{}, s.cfg.Parallel)
	}
	s.by[name] = s.age.PushBack(t)
	return t, now.Add(s.cfg.Total)
}

// known is how many tasks are remembered.
func (s *tasks) known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.age.Len()
}

// enter waits until the task has room for one more call, at most until done is
// closed; it reports whether it has. Whoever entered must leave.
func (t *task) enter(done <-chan struct{}) bool {
	if t == nil || t.running == nil {
		return true
	}
	select {
	case t.running <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

// leave ends what enter began.
func (t *task) leave() {
	if t != nil && t.running != nil {
		<-t.running
	}
}

// take allows an attempt, or says that it may not be: it would follow a failed
// one, and the task's retries are used up. A nil task allows everything.
func (t *task) take() bool {
	if t == nil {
		return true
	}
	t.owner.mu.Lock()
	defer t.owner.mu.Unlock()
	if !t.failed {
		return true
	}
	if t.retries == 0 {
		return false
	}
	t.retries--
	t.failed = false // the next one that fails costs again
	return true
}

// ended notes how an attempt ended. What is the caller's own doing costs the
// task nothing.
func (t *task) ended(c model.Class) {
	if t == nil || c == model.ClassInvalid || c == model.ClassCanceled {
		return
	}
	t.owner.mu.Lock()
	t.failed = c != model.ClassOK
	t.owner.mu.Unlock()
}
