package world

// alarm is a try that wakes at an instant.
type alarm struct {
	at    int64
	place place
}

// alarms is a heap by (at, number of the try).
type alarms []alarm

// next is the instant of the first, or never.
func (h alarms) next() int64 {
	if len(h) == 0 {
		return never
	}
	return h[0].at
}

func (h alarms) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].place.number < h[j].place.number
}

func (h *alarms) push(a alarm) {
	*h = append(*h, a)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s.less(i, parent) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

// pop takes the first; there must be one.
func (h *alarms) pop() alarm {
	s := *h
	first := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && s.less(child+1, child) {
			child++
		}
		if !s.less(child, i) {
			return first
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}
