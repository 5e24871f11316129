package agent

import (
	"fmt"
	"testing"
	"time"

	"weir/model"
)

func TestTasks(t *testing.T) {
	s := newTasks(TaskConfig{Retries: 2, Total: time.Minute})
	now := time.Unix(1000, 0)
	get := func(name string) *task {
		x, _ := s.get(name, now)
		return x
	}
	a := get("a")
	for i, step := range []struct {
		class model.Class // how the attempt before ended, 0 for none
		want  bool
	}{
		{0, true},
		{model.ClassOK, true},
		{model.ClassOverloaded, true},
		{model.ClassInvalid, true},
		{model.ClassCanceled, true},
		{model.ClassTransport, true},
		{model.ClassOK, true},
		{model.ClassRateLimited, false},
		{0, false},
		{model.ClassInvalid, false},
	} {
		if step.class != 0 {
			a.ended(step.class)
		}
		if got := a.take(); got != step.want {
			t.Errorf("step %d: allowed %v, want %v", i, got, step.want)
		}
	}
	if !get("b").take() || get("a") != a || get("a").take() {
		t.Error("a task pays for another, or is forgotten")
	}
	now = now.Add(2*time.Minute - 1)
	if get("a").take() {
		t.Error("a task that is over begins anew at once")
	}
	now = now.Add(1)
	if x, ends := s.get("a", now); !x.take() || ends != now.Add(time.Minute) {
		t.Errorf("the name does not stand for a new task, which ends at %v", ends)
	}
	for i := range 3 * maxTasks {
		get(fmt.Sprint(i))
	}
	if len(s.by) != maxTasks || s.age.Len() != maxTasks {
		t.Errorf("%d tasks are remembered", len(s.by))
	}
	var none *task
	none.ended(model.ClassOverloaded)
	if !none.take() {
		t.Error("a call without a task is refused")
	}
}
