package world

// pageSize is how many items one page holds.
const pageSize = 1024

// pages is a list that grows without moving what it holds: a run under load
// has a million requests alive, and copying them each time the list is full
// costs more than all that happens to them. Places are used again.
type pages[T any] struct {
	all  []*[pageSize]T
	used uint32 // places ever given out
	free []uint32
}

// at returns the item at place i, which was given out.
func (p *pages[T]) at(i uint32) *T { return &p.all[i/pageSize][i%pageSize] }

// take returns a place. What was there last is there still.
func (p *pages[T]) take() uint32 {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	if p.used%pageSize == 0 {
		p.all = append(p.all, new([pageSize]T))
	}
	p.used++
	return p.used - 1
}

// put gives a place back.
func (p *pages[T]) put(i uint32) { p.free = append(p.free, i) }
