package agent

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// keepAnswer puts a finished answer on a shelf.
func keepAnswer(s *shelf, key byte, n int, m *meaning, size int) {
	var k shelfKey
	k[0], k[1], k[2] = key, byte(n), byte(n>>8)
	r, fresh := s.enter(k, shelfPrint(k), time.Now())
	if !fresh {
		return
	}
	s.tag(r.book, m)
	r.book.begin(&http.Response{})
	r.book.write(make([]byte, size))
	r.book.end(nil, true, time.Now())
	_ = r.Close() // it never fails
}

// TestNearIsBounded holds the answers that are compared to their number and
// their bytes, and forgets what left the shelf.
func TestNearIsBounded(t *testing.T) {
	s := newShelf("semantic", KeepConfig{Bytes: 1 << 30, For: time.Hour}, metrics.NewSet())
	for n := range maxNear + 50 {
		keepAnswer(s, 1, n, &meaning{owner: "a", vector: []float32{1, 0}}, 1)
	}
	keepAnswer(s, 2, 0, &meaning{owner: "b", vector: []float32{0, 1}}, 1)
	if len(s.near["a"]) != maxNear || len(s.near["b"]) != 1 || len(s.books) != maxNear+1 {
		t.Errorf("%d and %d are compared, %d kept", len(s.near["a"]), len(s.near["b"]), len(s.books))
	}

	small := newShelf("semantic", KeepConfig{Bytes: 1 << 20, For: time.Hour}, metrics.NewSet())
	for n := range 3000 {
		keepAnswer(small, 1, n, &meaning{owner: fmt.Sprint("owner ", n%100), vector: make([]float32, 1000)}, 10)
	}
	var held, compared int64
	for _, b := range small.books {
		held += b.size
	}
	for _, of := range small.near {
		compared += int64(len(of))
		if len(of) == 0 {
			t.Error("an owner of nothing is kept")
		}
	}
	if small.used > 1<<20 || held != small.used || compared != int64(len(small.books)) || compared == 0 {
		t.Errorf("%d bytes used, %d held by %d answers, %d compared", small.used, held, len(small.books), compared)
	}
	small.mu.Lock()
	for small.order.Len() > 0 {
		small.remove(small.order.Front().Value.(*book))
	}
	small.mu.Unlock()
	if len(small.near) != 0 || small.used != 0 {
		t.Errorf("%d owners and %d bytes of nothing", len(small.near), small.used)
	}
}

// TestNearest finds the nearest that is near enough and asks the same beside.
func TestNearest(t *testing.T) {
	s := newShelf("semantic", KeepConfig{Bytes: 1 << 20, For: time.Hour}, metrics.NewSet())
	keepAnswer(s, 1, 0, &meaning{owner: "a", vector: []float32{1, 0}}, 1)
	keepAnswer(s, 1, 1, &meaning{owner: "a", vector: []float32{0.8, 0.6}}, 1)
	keepAnswer(s, 1, 2, &meaning{owner: "a", rest: [32]byte{1}, vector: []float32{0, 1}}, 1)
	for _, c := range []struct {
		m    meaning
		at   time.Time
		want int // of the answers; -1 for none
	}{
		{meaning{owner: "a", vector: []float32{0.99, 0.14}}, time.Now(), 0},
		{meaning{owner: "a", vector: []float32{0.75, 0.66}}, time.Now(), 1},
		{meaning{owner: "a", vector: []float32{0, 1}}, time.Now(), -1},
		{meaning{owner: "b", vector: []float32{1, 0}}, time.Now(), -1},
		{meaning{owner: "a", vector: []float32{1, 0, 0}}, time.Now(), -1},
		{meaning{owner: "a", vector: []float32{1, 0}}, time.Now().Add(2 * time.Hour), -1},
	} {
		got := -1
		if r := s.nearest(&c.m, 0.95, c.at); r != nil {
			got = int(r.book.key[1])
		}
		if got != c.want {
			t.Errorf("%v: answer %d, want %d", c.m, got, c.want)
		}
	}
}
