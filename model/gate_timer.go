package model

// gateTimers orders waiting requests by the next instant at which time alone
// changes something for them: a binary heap, each request knowing its place.
type gateTimers []*gateRequest

// set puts r at instant at, moving it when it is there already.
func (h *gateTimers) set(r *gateRequest, at Nanos) {
	r.wake = at
	if r.timer == 0 {
		*h = append(*h, r)
		r.timer = len(*h)
	}
	h.up(r.timer - 1)
	h.down(r.timer - 1)
}

// drop takes r out, if it is there.
func (h *gateTimers) drop(r *gateRequest) {
	if r.timer == 0 {
		return
	}
	i, last := r.timer-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	r.timer = 0
	if i < last {
		h.up(i)
		h.down(i)
	}
}

// next returns the earliest instant, gateNever when nothing waits.
func (h gateTimers) next() Nanos {
	if len(h) == 0 {
		return gateNever
	}
	return h[0].wake
}

func (h gateTimers) less(i, j int) bool {
	if h[i].wake != h[j].wake {
		return h[i].wake < h[j].wake
	}
	return h[i].number < h[j].number
}

func (h gateTimers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer, h[j].timer = i+1, j+1
}

func (h gateTimers) up(i int) {
	for i > 0 && h.less(i, (i-1)/2) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h gateTimers) down(i int) {
	for {
		least := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < len(h) && h.less(k, least) {
				least = k
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

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
