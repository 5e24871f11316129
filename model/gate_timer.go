package model

// gateTimers orders waiting requests by the next instant at which time alone
// changes something for them: a binary heap, each request knowing its place.
type gateTimers []gateTimer

// gateTimer is one request's place in line: by its instant, then its number.
type gateTimer struct {
	wake   Nanos
	number uint64
	r      *gateRequest
}

func (t *gateTimer) before(o *gateTimer) bool {
	if t.wake != o.wake {
		return t.wake < o.wake
	}
	return t.number < o.number
}

// set puts r at instant at, moving it when it is there already.
func (h *gateTimers) set(r *gateRequest, at Nanos) {
	if r.timer == 0 {
		*h = append(*h, gateTimer{})
		r.timer = len(*h)
	}
	h.settle(r.timer-1, gateTimer{at, r.number, r})
}

// drop takes r out, if it is there.
func (h *gateTimers) drop(r *gateRequest) {
	if r.timer == 0 {
		return
	}
	i, last := r.timer-1, len(*h)-1
	moved := (*h)[last]
	(*h)[last] = gateTimer{}
	*h = (*h)[:last]
	r.timer = 0
	if i < last {
		h.settle(i, moved)
	}
}

// next returns the earliest instant, gateNever when nothing waits.
func (h gateTimers) next() Nanos {
	if len(h) == 0 {
		return gateNever
	}
	return h[0].wake
}

// settle puts t where it belongs, given that place i is to be filled.
func (h gateTimers) settle(i int, t gateTimer) {
	for i > 0 && t.before(&h[(i-1)/2]) {
		h.place(i, h[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		least := 2*i + 1
		if least >= len(h) {
			break
		}
		if least+1 < len(h) && h[least+1].before(&h[least]) {
			least++
		}
		if !h[least].before(&t) {
			break
		}
		h.place(i, h[least])
		i = least
	}
	h.place(i, t)
}

func (h gateTimers) place(i int, t gateTimer) { h[i], t.r.timer = t, i+1 }

// gateHolds is a heap of the instants at which held slots are free again.
type gateHolds []Nanos

// add puts an instant in. Beyond gateMaxHeld it is left out.
func (h *gateHolds) add(at Nanos) {
	if len(*h) >= gateMaxHeld {
		return
	}
	*h = append(*h, at)
	for i := len(*h) - 1; i > 0 && (*h)[i] < (*h)[(i-1)/2]; i = (i - 1) / 2 {
		(*h)[i], (*h)[(i-1)/2] = (*h)[(i-1)/2], (*h)[i]
	}
}

// release drops what is not after now.
func (h *gateHolds) release(now Nanos) {
	for len(*h) > 0 && (*h)[0] <= now {
		h.pop()
	}
}

func (h *gateHolds) pop() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	for i := 0; ; {
		least := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < last && s[k] < s[least] {
				least = k
			}
		}
		if least == i {
			break
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
	*h = s
}

// next returns the first instant, gateNever when no slot is held.
func (h gateHolds) next() Nanos {
	if len(h) == 0 {
		return gateNever
	}
	return h[0]
}
