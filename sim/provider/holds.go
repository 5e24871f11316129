package provider

// holds are the slots taken by refusals on their way, in order of their ends.
type holds struct {
	ends []int64
	head int
}

// add takes a slot for a time. A refusal that is quicker than the one before
// it waits for that one, so that ends stay in order.
func (h *holds) add(now, delay int64) {
	end := now + delay
	if h.head < len(h.ends) {
		end = max(end, h.ends[len(h.ends)-1])
	}
	h.ends = append(h.ends, end)
}

// due returns the next end, or Never.
func (h *holds) due() int64 {
	if h.head == len(h.ends) {
		return Never
	}
	return h.ends[h.head]
}

func (h *holds) pop() {
	h.head++
	if h.head*2 >= len(h.ends) {
		h.ends = h.ends[:copy(h.ends, h.ends[h.head:])]
		h.head = 0
	}
}
