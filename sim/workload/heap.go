package workload

// before orders streams by time, then workload, then key: a total order, so
// that the sequence of requests depends on nothing else.
func (s *stream) before(o *stream) bool {
	switch {
	case s.at != o.at:
		return s.at < o.at
	case s.workload != o.workload:
		return s.workload < o.workload
	}
	return s.key < o.key
}

func (g *Generator) push(s stream) {
	if s.at == Never {
		return
	}
	g.heap = append(g.heap, s)
	for i := len(g.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !g.heap[i].before(&g.heap[parent]) {
			return
		}
		g.heap[i], g.heap[parent] = g.heap[parent], g.heap[i]
		i = parent
	}
}

func (g *Generator) pop() {
	last := len(g.heap) - 1
	g.heap[0] = g.heap[last]
	g.heap = g.heap[:last]
	g.down(0)
}

func (g *Generator) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(g.heap) {
			return
		}
		if child+1 < len(g.heap) && g.heap[child+1].before(&g.heap[child]) {
			child++
		}
		if !g.heap[child].before(&g.heap[i]) {
			return
		}
		g.heap[i], g.heap[child] = g.heap[child], g.heap[i]
		i = child
	}
}
