package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"weir/agent/dialect"
	"weir/events"
	"weir/model"
)

const (
	// longestWait bounds ?wait=, writeWithin a write to a client that does not
	// read.
	longestWait = 5 * time.Minute
	writeWithin = 60 * time.Second
	// lookEvery and lookAtMost are how often a task is looked at while a
	// client waits: without news and with.
	lookEvery  = 3 * time.Second
	lookAtMost = 250 * time.Millisecond
	// headerIdempotency names a task that a POST asks for.
	headerIdempotency = "Idempotency-Key"
)

// OfTenant begins the owner of tasks that are a tenant's, whose name follows:
// they are in its room, if it has one.
const OfTenant = "tenant "

// Post takes a task in. owner is who may see it; nobody else's tasks are found
// under it.
func (d *Desk) Post(w http.ResponseWriter, r *http.Request, owner string) {
	d.enter(w, r, owner, (*room).post)
}

// Get shows a task; with ?wait= once it has ended or that time is over.
func (d *Desk) Get(w http.ResponseWriter, r *http.Request, owner string) {
	d.enter(w, r, owner, (*room).get)
}

// Repeat queues the failed items of a task again.
func (d *Desk) Repeat(w http.ResponseWriter, r *http.Request, owner string) {
	d.enter(w, r, owner, (*room).again)
}

// Cancel ends a task.
func (d *Desk) Cancel(w http.ResponseWriter, r *http.Request, owner string) {
	d.enter(w, r, owner, (*room).abandon)
}

// Results writes one line for each item that has ended.
func (d *Desk) Results(w http.ResponseWriter, r *http.Request, owner string) {
	d.enter(w, r, owner, (*room).results)
}

// enter does something in an owner's room.
func (d *Desk) enter(w http.ResponseWriter, r *http.Request, owner string, do func(*room, http.ResponseWriter, *http.Request, string)) {
	if room := d.of(owner); room != nil {
		do(room, w, r, owner)
		return
	}
	refuse(w, r, mistake(http.StatusForbidden, "tasks_elsewhere", "the credential of this sidecar is for tasks of other tenants"))
}

// refuse answers what is not read any further.
func refuse(w http.ResponseWriter, r *http.Request, fault *dialect.Fault) {
	// Who is still sending would see its connection break, and not why.
	_, _ = io.CopyN(io.Discard, r.Body, MaxPost)
	write(w, fault)
}

func (d *room) post(w http.ResponseWriter, r *http.Request, owner string) {
	j, fault, err := d.takeIn(w, r, owner)
	if fault != nil {
		refuse(w, r, fault)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), busWithin)
	defer cancel()
	d.reply(ctx, w, j, err, http.StatusAccepted)
}

// takeIn reads a POST and keeps its task, within the bounds of all: what was
// read takes its room until it is kept.
func (d *room) takeIn(w http.ResponseWriter, r *http.Request, owner string) (*job, *dialect.Fault, error) {
	size := r.ContentLength
	if size < 0 || size > MaxPost {
		size = MaxPost
	}
	defer d.posting.Add(-size)
	if d.posting.Add(size) > maxPosting {
		return nil, &dialect.Fault{Class: model.ClassOverloaded, Code: "too_many_tasks", Message: "too many tasks are being taken in at the same time", Wait: time.Second}, nil
	}
	a, fault := d.readPost(w, r)
	if fault != nil {
		return nil, fault, nil
	}
	if a.id == "" {
		if key := r.Header.Get(headerIdempotency); key != "" {
			a.id = "task-" + jobKey(owner, "key "+key)
		} else {
			a.id = "task-" + draw()
		}
	}
	if len(a.id) > maxID || !plain(a.id) {
		return nil, mistake(http.StatusBadRequest, "invalid_id", fmt.Sprintf("a task's id is 1 to %d of A-Z a-z 0-9 _ -", maxID)), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*busWithin)
	defer cancel()
	j, err := d.put(ctx, owner, a)
	return j, nil, err
}

// readPost reads the body and what it asks for.
func (d *room) readPost(w http.ResponseWriter, r *http.Request) (*asked, *dialect.Fault) {
	if len(r.Header.Get(headerIdempotency)) > maxHeader {
		return nil, mistake(http.StatusBadRequest, "invalid_idempotency_key", fmt.Sprintf("an Idempotency-Key has at most %d bytes", maxHeader))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxPost))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, mistake(http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("the request body is over %d bytes; make it several tasks", MaxPost))
	case err != nil:
		return nil, mistake(http.StatusBadRequest, "invalid_body", "the request body broke off")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it was for the body
	return d.parse(r.Header, body)
}

func (d *room) get(w http.ResponseWriter, r *http.Request, owner string) {
	ctx := r.Context()
	wait, err := duration(r.URL.Query().Get("wait"))
	if err != nil {
		write(w, mistake(http.StatusBadRequest, "invalid_wait", "wait is a time such as 30s"))
		return
	}
	patient(w, r, wait)
	_, j, _, err := d.find(ctx, owner, r.PathValue("id"))
	if err == nil && wait > 0 {
		select {
		case d.waiters <- struct{}{}: // else it is answered at once
			j, err = d.await(ctx, owner, j, wait)
			<-d.waiters
		default:
		}
	}
	d.reply(ctx, w, j, err, http.StatusOK)
}

// patient lets the answer wait, and lifts the time in which a request must have
// been read, which would end its handler: not where there is a body, which
// nobody here reads, and which the server would wait for.
func patient(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	rc := http.NewResponseController(w)
	if r.ContentLength == 0 {
		_ = rc.SetReadDeadline(time.Time{}) // not every writer has deadlines
	}
	_ = rc.SetWriteDeadline(time.Now().Add(wait + writeWithin))
}

// duration reads a wait, in Go's form or as seconds.
func duration(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && n >= 0 {
		return time.Duration(min(n, longestWait.Seconds()) * float64(time.Second)), nil
	}
	wait, err := time.ParseDuration(s)
	if err == nil && wait < 0 {
		err = errors.New("negative")
	}
	return min(wait, longestWait), err
}

// await waits until a task has ended, and returns it as it is then.
func (d *room) await(ctx context.Context, owner string, j *job, wait time.Duration) (*job, error) {
	news, stop := d.watching(j.UID)
	defer stop()
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		all, err := d.states(ctx, j)
		if err != nil {
			return nil, err
		}
		open := false
		for i := range all {
			open = open || !all[i].State.ended()
		}
		if !open {
			return j, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over.C:
			return j, nil
		case <-d.ending:
			return j, nil
		case <-time.After(lookEvery):
		case <-news:
			select { // more of it may come at once
			case <-over.C:
				return j, nil
			case <-time.After(lookAtMost):
			}
		}
		if _, j, _, err = d.find(ctx, owner, j.ID); err != nil {
			return nil, err
		}
	}
}

func (d *room) again(w http.ResponseWriter, r *http.Request, owner string) {
	patient(w, r, 6*busWithin)
	ctx, cancel := context.WithTimeout(r.Context(), 6*busWithin)
	defer cancel()
	j, n, err := d.repeat(ctx, owner, r.PathValue("id"))
	if err == nil {
		w.Header().Set("X-Weir-Repeated-Items", strconv.Itoa(n))
	}
	d.reply(ctx, w, j, err, http.StatusAccepted)
}

func (d *room) abandon(w http.ResponseWriter, r *http.Request, owner string) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*busWithin)
	defer cancel()
	j, err := d.cancel(ctx, owner, r.PathValue("id"))
	d.reply(ctx, w, j, err, http.StatusOK)
}

// line is one item of Results, in the shape of OpenAI's batch output.
type line struct {
	ID       string     `json:"id"`
	CustomID string     `json:"custom_id"`
	Response *answer    `json:"response"`
	Error    *lineError `json:"error"`
}

type lineError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (d *room) results(w http.ResponseWriter, r *http.Request, owner string) {
	patient(w, r, 0)
	ctx := r.Context()
	_, j, _, err := d.find(ctx, owner, r.PathValue("id"))
	var all []status
	var names func(int) string
	if err == nil {
		all, err = d.states(ctx, j)
	}
	if err == nil {
		names, err = d.names(ctx, j)
	}
	if err != nil {
		write(w, faultOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	rc := http.NewResponseController(w)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for n := range all {
		s := &all[n]
		if !s.State.ended() {
			continue
		}
		l := line{ID: fmt.Sprintf("%s-%d", j.ID, n), CustomID: names(n)}
		if l.Response, err = d.answerOf(ctx, j, n, s); err != nil {
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
		if s.State != Completed || l.Response == nil {
			l.Error = &lineError{string(s.State), first(s.Reason, "its answer is not kept any more")}
		}
		_ = rc.SetWriteDeadline(time.Now().Add(writeWithin))
		if err := out.Encode(l); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// reply shows a task, or says why not.
func (d *room) reply(ctx context.Context, w http.ResponseWriter, j *job, err error, code int) {
	var v *view
	if err == nil {
		v, err = d.view(ctx, j)
	}
	if err != nil {
		write(w, faultOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/weir/tasks/"+j.ID)
	w.WriteHeader(code)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(v) // the client is gone
}

// faultOf is an error as a client is told it.
func faultOf(err error) *dialect.Fault {
	switch {
	case errors.Is(err, errGone):
		return mistake(http.StatusNotFound, "unknown_task", "there is no such task, or its age is over")
	case errors.Is(err, errReuse):
		return mistake(http.StatusUnprocessableEntity, "idempotency_key_reuse", "this id was used for another task")
	case errors.Is(err, errOver):
		return mistake(http.StatusConflict, "task_canceled", "the task was canceled")
	case errors.Is(err, events.ErrFull):
		return &dialect.Fault{Class: model.ClassOverloaded, Code: "tasks_full", Message: "the room for tasks is used up (agent.tasks.bytes)", Wait: 30 * time.Second}
	case errors.Is(err, events.ErrTooLarge):
		return mistake(http.StatusRequestEntityTooLarge, "request_too_large", "the task is too large to be kept")
	}
	return &dialect.Fault{Class: model.ClassOverloaded, Code: "tasks_unreachable", Message: "tasks cannot be reached now; a POST that is repeated needs its Idempotency-Key or id", Wait: 2 * time.Second}
}

func write(w http.ResponseWriter, f *dialect.Fault) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Should-Retry", "false")
	if f.Wait >= 0 {
		h.Set("Retry-After", strconv.FormatFloat(max(1, math.Ceil(f.Wait.Seconds())), 'f', 0, 64))
	}
	w.WriteHeader(f.HTTPStatus())
	_, _ = w.Write(f.JSON(dialect.Other))
}
