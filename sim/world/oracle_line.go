package world

import "sort"

// spot is a request's place among those that wait: in order of the instant
// until which it is of use, then of its number.
type spot struct {
	until int64
	id    uint64
	i     uint32
}

func (s spot) before(o spot) bool {
	return s.until < o.until || s.until == o.until && s.id < o.id
}

// waiting is spots in order. Most come at the end and go at the beginning.
type waiting struct {
	spots []spot
	head  int
}

func (q *waiting) length() int   { return len(q.spots) - q.head }
func (q *waiting) at(k int) spot { return q.spots[q.head+k] }
func (q *waiting) live() []spot  { return q.spots[q.head:] }
func (q *waiting) find(s spot) int {
	live := q.live()
	return sort.Search(len(live), func(k int) bool { return !live[k].before(s) })
}

// from returns the place of the first that is of use until at or later.
func (q *waiting) from(at int64) int { return q.find(spot{until: at}) }

func (q *waiting) add(s spot) {
	if q.head > 1024 && q.head > len(q.spots)/2 {
		q.spots = q.spots[:copy(q.spots, q.live())]
		q.head = 0
	}
	k := q.find(s)
	if q.head > 0 && k < q.length()/2 {
		q.head--
		live := q.live()
		copy(live, live[1:k+1])
		live[k] = s
		return
	}
	q.spots = append(q.spots, spot{})
	live := q.live()
	copy(live[k+1:], live[k:])
	live[k] = s
}

// remove takes a spot out, if it is there.
func (q *waiting) remove(s spot) {
	k := q.find(s)
	live := q.live()
	if k == len(live) || live[k] != s {
		return
	}
	if k < len(live)/2 {
		copy(live[1:k+1], live[:k])
		q.head++
		return
	}
	copy(live[k:], live[k+1:])
	q.spots = q.spots[:len(q.spots)-1]
}
