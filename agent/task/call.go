package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/agent"
	"weir/events"
	"weir/model"
)

const (
	// deadline is how long a call may wait in the gate's queue and run.
	deadline = 10 * time.Minute
	// leastWait and mostWait bound how long an item is put off at once.
	leastWait = time.Second
	mostWait  = time.Minute
	// usualWait is the first wait where nothing names one; each is twice the
	// one before.
	usualWait = 2 * time.Second
	// maxTries is how many calls may come to nothing after the provider may
	// have taken them.
	maxTries = 5
	// maxReason bounds the words about an item, in bytes.
	maxReason = 200
)

// call makes the call and stores what came of it.
func (w *worker) call(ctx context.Context) verdict {
	var claimed error
	sending := agent.BeforeSend(ctx, func(context.Context) error {
		claimed = w.claim()
		return claimed
	})
	resp, err := w.o.Calls.RoundTrip(w.request(sending))
	if err != nil {
		return w.broken(ctx)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	_ = resp.Body.Close() // nothing more is wanted of it
	switch {
	case claimed != nil && errors.Is(claimed, events.ErrConflict):
		return verdict{after: takenFor} // another agent has it
	case claimed != nil:
		return verdict{after: busPause}
	case err != nil && ctx.Err() != nil:
		return w.broken(ctx)
	case err != nil:
		return w.fruitless(refusal{class: model.ClassTransport.String(), reason: "the answer broke off", wait: -1, reached: true})
	case len(body) > MaxAnswer:
		return w.finish(Failed, resp, nil, fmt.Sprintf("the answer is over %d bytes", MaxAnswer))
	}
	r := read(resp, body)
	switch {
	case r.class == "":
		return w.finish(Completed, resp, body, "")
	case ctx.Err() != nil:
		return w.broken(ctx)
	case r.final:
		return w.finish(Failed, resp, body, r.reason)
	}
	return w.fruitless(r)
}

// request is the item as a call.
func (w *worker) request(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, origin+w.item.Path, bytes.NewReader(w.item.body))
	if err != nil {
		panic(fmt.Sprintf("task: BUG: path of an item: %v", err)) // it is checked when it is read
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Weir-Priority", model.PriorityBatch.String())
	r.Header.Set("X-Weir-Core", "true")    // it can wait, so no lesser tier need answer
	r.Header.Set("X-Api-Key", w.job.Owner) // goes no further: it tells whose answers may be shared
	for name, value := range w.job.Header {
		r.Header.Set(name, value)
	}
	if tenant := w.keep.Tenant(); tenant != "" { // whoever reaches its room speaks for nobody else
		r.Header.Set("X-Weir-Tenant", tenant)
		r.Header.Set("X-Api-Key", jobKey(OfTenant+tenant, ""))
	}
	left := instant(w.job.Expires).Sub(w.keep.Now())
	r.Header.Set("X-Weir-Deadline-Ms", strconv.FormatInt(max(1, min(deadline, left).Milliseconds()), 10))
	return r
}

// broken takes a call that was broken off from this side.
func (w *worker) broken(ctx context.Context) verdict {
	if errors.Is(context.Cause(ctx), errCanceled) {
		next := w.next(Canceled)
		next.Reason = "canceled by the client"
		if err := w.persist(next); err != nil {
			return verdict{after: takenFor}
		}
		w.ended[Canceled].Inc()
		w.news("done", w.item.UID)
		return verdict{drop: true}
	}
	if !w.mine {
		return verdict{} // for the next agent, at once
	}
	return w.putOff(0, model.ClassCanceled.String(), "its agent ended", false, true)
}

// refusal is what a call came to that has no answer.
type refusal struct {
	class   string // empty for an answer
	reason  string
	wait    time.Duration // until another try makes sense; negative for unknown
	final   bool          // no other try will do better
	reached bool          // a provider may have taken the call
	unasked bool          // no provider was asked
}

// read judges an answer of the transport.
func read(resp *http.Response, body []byte) refusal {
	unasked := resp.Header.Get("X-Weir-Attempts") == "0"
	if resp.StatusCode < 300 {
		if unasked && resp.Header.Get("X-Weir-Degraded") == "true" {
			return refusal{class: model.ClassOverloaded.String(), reason: "no channel takes it", wait: -1, unasked: true}
		}
		return refusal{}
	}
	var told struct {
		Error struct {
			Message string `json:"message"`
			Weir    *struct {
				Class string   `json:"class"`
				WaitS *float64 `json:"wait_s"`
			} `json:"weir"`
		} `json:"error"`
	}
	r := refusal{wait: -1, unasked: unasked, reached: !unasked}
	if json.Unmarshal(body, &told) == nil && told.Error.Weir != nil {
		r.class, r.reason = first(told.Error.Weir.Class, "unknown"), clip(told.Error.Message)
		if s := told.Error.Weir.WaitS; s != nil && *s >= 0 {
			r.wait = time.Duration(min(*s, mostWait.Seconds()) * float64(time.Second))
		}
		r.final = r.class == model.ClassInvalid.String()
	} else { // what the provider says, as it says it
		r.class, r.reason = "invalid", fmt.Sprintf("the provider answered with status %d", resp.StatusCode)
		switch code := resp.StatusCode; {
		case code == http.StatusTooManyRequests:
			r.class = model.ClassRateLimited.String()
		case code >= 500 || code == http.StatusRequestTimeout || code == http.StatusConflict || code == http.StatusTooEarly:
			r.class = model.ClassTransport.String()
		}
		r.final = r.class == "invalid"
	}
	switch r.class {
	case model.ClassRateLimited.String(), model.ClassOverloaded.String(), model.ClassQuotaExhausted.String(), model.ClassAuth.String():
		r.reached = false // it was refused and cost nothing
	}
	return r
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "") }

// fruitless puts the item off, or gives it up where calls keep coming to
// nothing that may have cost.
func (w *worker) fruitless(r refusal) verdict {
	if r.reached && w.st.Tries+1 >= maxTries {
		next := w.next(Failed)
		next.Class, next.Reason = r.class, r.reason
		next.Tries++
		if err := w.persist(next); err != nil {
			return verdict{after: takenFor}
		}
		w.ended[Failed].Inc()
		w.news("done", w.item.UID)
		return verdict{over: true}
	}
	wait, usual := r.wait, usualWait<<min(w.st.Waits, 8)
	if wait < 0 || r.unasked && wait > usual { // asking here costs nothing, and an operator may let go before
		wait = usual
	}
	wait = min(max(wait, leastWait), mostWait)
	if r.unasked {
		w.block(wait)
	}
	return w.putOff(wait+rand.N(wait/5+1), r.class, r.reason, r.reached, false)
}

// finish stores an answer, and the state that tells of it. The answer of a
// call that another agent has taken over is dropped.
func (w *worker) finish(s State, resp *http.Response, body []byte, reason string) verdict {
	next := w.next(s)
	next.HTTP, next.Type, next.Request = resp.StatusCode, clip(resp.Header.Get("Content-Type")), clip(resp.Header.Get("X-Weir-Request"))
	next.Reason, next.Size = reason, len(body)
	if s == Failed {
		next.Class = model.ClassInvalid.String()
	}
	if len(body) > 0 {
		next.Parts = strconv.FormatUint(w.st.seq, 10)
		if next.seq == 0 || !w.mine { // refused before anything was sent
			next.Parts = draw()
		}
	}
	if err := w.store(next.Parts, body); err != nil {
		return verdict{after: takenFor}
	}
	if err := w.persist(next); err != nil {
		w.lost.Inc()
		return verdict{after: takenFor}
	}
	w.ended[s].Inc()
	w.news("done", w.item.UID)
	if s == Failed {
		return verdict{over: true} // its request stays, to be repeated
	}
	return verdict{drop: true}
}

// store writes an answer in pieces, until it is written.
func (w *worker) store(name string, body []byte) error {
	for k := 0; k*partSize < len(body); k++ {
		part := body[k*partSize : min((k+1)*partSize, len(body))]
		err := w.insist(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), busWithin)
			defer cancel()
			return w.keep.Set(ctx, fmt.Sprintf("%s.%d", partsKey(w.item.UID, w.item.N, name), k), part)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func partsKey(uid string, n int, name string) string {
	return fmt.Sprintf("part.%s.%d.%s", uid, n, name)
}
