package agent

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"weir/agent/dialect"
	"weir/model"
)

// patienceHeaders say in seconds how long an SDK waits for the head of an
// answer: of the SDKs for JavaScript and Go, in whole seconds, what is below
// cut off; and of those for Python, which wait so long for each next byte.
var patienceHeaders = [...]string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout"}

// patience returns how long a client waits for the head of its answer. ok is
// false where its headers say nothing of it, or nothing that can be: such words
// are an SDK's and not its user's, so they are no mistake of the request. A
// zero is less than a second and says no more.
func patience(h http.Header) (wait time.Duration, ok bool) {
	least := math.Inf(1)
	for _, name := range patienceHeaders {
		if s, err := strconv.ParseFloat(h.Get(name), 64); err == nil && s > 0 {
			least = min(least, s)
		}
	}
	if math.IsInf(least, 1) {
		return 0, false
	}
	wait = time.Duration(min(least, longestDeadline.Seconds()) * float64(time.Second))
	return wait, wait > 0
}

// hurry lowers the deadline that the gate plans with to when the client will
// have gone by what its SDK says, so that it is told at once what it would wait
// for in vain, and nothing is sent for it that ends only afterwards. The
// attempt itself goes on while the client is there: it leaves by itself.
//
// That holds for answers whose head comes with their end. A stream's, or
// sound's, comes as soon as it begins, and how long that takes the gate does
// not know: a call's whole time would be too much.
func (x *exchange) hurry() {
	wait, ok := patience(x.req.Header)
	if !ok || x.kept || x.body.Stream || x.dialect == dialect.Media {
		return
	}
	usual := x.due()
	if gone := x.came.Add(wait); gone.Before(usual) {
		x.usual, x.hurried = usual, true
		x.request.Deadline = gone
	}
}

// due returns when the request must have ended.
func (x *exchange) due() time.Time {
	if !x.request.Deadline.IsZero() {
		return x.request.Deadline
	}
	total := x.transport.client.Fleet().Retry.Total
	if total <= 0 {
		total = model.UsualTotal
	}
	return x.came.Add(total.Duration())
}

// ends returns when an attempt that starts now must have ended.
func (x *exchange) ends(p *Permit) time.Time {
	if !x.hurried {
		return p.Deadline
	}
	at := time.Now().Add(x.transport.client.Fleet().Timeouts.Total.Duration())
	if at.Before(x.usual) {
		return at
	}
	return x.usual
}
