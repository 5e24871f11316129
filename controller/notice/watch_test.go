package notice_test

import (
	"fmt"
	"testing"
	"time"

	"weir/controller/notice"
)

var open = notice.Condition{Kind: notice.KindBreaker, Subject: "main", Text: "channel main takes no calls: refused"}

// told runs a watch once a second, with what is wrong by the second, and
// returns the seconds of the notices.
func told(seconds int, wrong func(s int) []notice.Condition) (said []string) {
	var w notice.Watch
	start := time.Unix(1_000_000, 0)
	for s := range seconds {
		for _, n := range w.Step(start.Add(time.Duration(s)*time.Second), wrong(s)) {
			said = append(said, fmt.Sprintf("%d %s %s again=%d since=%d", s, n.State, n.Kind, n.Again, int(n.Since.Sub(start)/time.Second)))
		}
	}
	return said
}

func during(from, to int) func(int) []notice.Condition {
	return func(s int) []notice.Condition {
		if s >= from && s < to {
			return []notice.Condition{open}
		}
		return nil
	}
}

func TestWatch(t *testing.T) {
	flapping := func(s int) []notice.Condition { // 10 s there, 50 s gone
		if s%60 < 10 && s < 900 {
			return []notice.Condition{open}
		}
		return nil
	}
	probed := func(s int) []notice.Condition { // gone for 20 s of each 40
		if s%40 < 20 && s < 400 {
			return []notice.Condition{open}
		}
		return nil
	}
	for name, c := range map[string]struct {
		seconds int
		wrong   func(int) []notice.Condition
		want    []string
	}{
		"nothing":  {100, during(0, 0), nil},
		"once":     {200, during(5, 100), []string{"5 firing breaker again=0 since=5", "129 resolved breaker again=0 since=5"}},
		"short":    {200, during(5, 6), []string{"5 firing breaker again=0 since=5", "35 resolved breaker again=0 since=5"}},
		"lasting":  {5000, during(5, 5000), []string{"5 firing breaker again=0 since=5"}},
		"probed":   {600, probed, []string{"0 firing breaker again=0 since=0", "409 resolved breaker again=0 since=0"}},
		"flapping": {1000, flapping, []string{"0 firing breaker again=0 since=0", "39 resolved breaker again=0 since=0", "600 firing breaker again=10 since=600", "639 resolved breaker again=0 since=600"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := told(c.seconds, c.wrong); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestWatchOfAFlood: a fleet of which everything fails at once is told in a few
// lines.
func TestWatchOfAFlood(t *testing.T) {
	var w notice.Watch
	var wrong []notice.Condition
	for i := range 500 {
		wrong = append(wrong, notice.Condition{Kind: notice.KindBreaker, Subject: fmt.Sprint("channel", i)})
	}
	news := w.Step(time.Unix(1, 0), wrong)
	if len(news) != 11 || news[10].Kind != notice.KindMore || news[10].Text != "and 490 more at the same moment" {
		t.Errorf("%d notices, the last %+v", len(news), news[len(news)-1])
	}
	if again := w.Step(time.Unix(2, 0), wrong); len(again) != 0 {
		t.Errorf("%d notices of the same", len(again))
	}
}
