package notice

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// settle is how long a trouble must be gone to be over: a breaker that is
	// probed, opens again and is probed again is one trouble.
	settle = 30 * time.Second
	// repeat is the least time between two notices that the same trouble
	// begins.
	repeat = 10 * time.Minute
	// mostAtOnce is how many notices one step brings; the rest is one more.
	mostAtOnce = 10
)

// Watch knows what was told. The zero value has told nothing. It is used by one
// goroutine.
type Watch struct {
	known map[key]*trouble
}

type key struct {
	kind    Kind
	subject string
}

// trouble is a condition that is, or was a short while ago.
type trouble struct {
	Condition
	since, seen time.Time
	told        time.Time // that it began; zero for not yet
	open        bool      // told and not resolved
	again       int
}

// Step takes what is wrong at now and returns what is news, in a fixed order.
// What it keeps is bounded by what is wrong or was in the last ten minutes.
func (w *Watch) Step(now time.Time, wrong []Condition) []Notice {
	if w.known == nil {
		w.known = map[key]*trouble{}
	}
	for _, c := range wrong {
		w.see(now, c)
	}
	var news []Notice
	for k, t := range w.known {
		switch {
		case t.seen.Equal(now):
			if !t.open && (t.told.IsZero() || now.Sub(t.told) >= repeat) {
				news = append(news, t.notice(Firing, now))
				t.open, t.told, t.again = true, now, 0
			}
		case now.Sub(t.seen) < settle:
		case t.open:
			news = append(news, t.notice(Resolved, now))
			t.open = false
		case now.Sub(t.told) >= repeat:
			delete(w.known, k)
		}
	}
	slices.SortFunc(news, func(a, b Notice) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	return few(now, news)
}

// see notes a condition that is there now.
func (w *Watch) see(now time.Time, c Condition) {
	k := key{c.Kind, c.Subject}
	t := w.known[k]
	if t == nil {
		t = &trouble{since: now, seen: now}
		w.known[k] = t
	}
	if now.Sub(t.seen) >= settle {
		t.since = now
		t.again++
	}
	t.Condition, t.seen = c, now
}

func (t *trouble) notice(s State, now time.Time) Notice {
	return Notice{State: s, Kind: t.Kind, Subject: t.Subject, Text: t.Text, At: now, Since: t.since, Again: t.again}
}

// few keeps a flood of news short.
func few(now time.Time, news []Notice) []Notice {
	if len(news) <= mostAtOnce {
		return news
	}
	left := len(news) - mostAtOnce
	return append(news[:mostAtOnce:mostAtOnce], Notice{
		State: news[mostAtOnce].State, Kind: KindMore, At: now, Since: now, Text: fmt.Sprintf("and %d more at the same moment", left),
	})
}
