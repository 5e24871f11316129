package peer

import (
	"testing"

	"weir/model"
	"weir/sim/incident"
)

// nothing is a channel whose limits are not told.
func nothing() incident.Limits {
	return incident.Limits{RPM: -1, TPM: -1, InputTPM: -1, OutputTPM: -1, Concurrency: -1, RequestsPerDay: -1, TokensPerDay: -1}
}

func TestSplitConcurrency(t *testing.T) {
	for _, c := range []struct{ told, n, want int64 }{{120, 4, 30}, {10, 4, 2}, {3, 4, 1}, {0, 4, 0}} {
		l := nothing()
		l.Concurrency = c.told
		s := &line{t: t, l: NewSplit(false, NewShare(l, c.n))}
		calls := s.fill()
		if int64(len(calls)) != c.want {
			t.Fatalf("%d slots over %d processes: %d each, want %d", c.told, c.n, len(calls), c.want)
		}
		s.ask(Wait, Never)
		if len(calls) > 0 {
			s.refused(calls[0])
			s.send()
		}
	}
}

func TestSplitRequests(t *testing.T) {
	l := nothing()
	l.RPM = 60
	s := &line{t: t, l: NewSplit(false, NewShare(l, 4))}
	// A quarter of 60: 15 at once, then one every 4 s.
	if n := len(s.fill()); n != 15 {
		t.Fatalf("%d at once, want 15", n)
	}
	s.ask(Wait, 4*second+1)
	s.now = 4*second + 1
	s.send()
	s.ask(Wait, 8*second+1)
	// A refused request is spent.
	s.now = 8*second + 1
	s.refused(s.send())
	s.ask(Wait, 12*second+1)

	// 60 requests over 64 processes: less than one a minute each. The call
	// waits for a full bucket and leaves it in debt.
	s = &line{t: t, l: NewSplit(false, NewShare(l, 64))}
	s.send()
	s.ask(Wait, 64*second+1)
	s.now = 64*second + 1
	s.send()
}

func TestSplitTokens(t *testing.T) {
	l := nothing()
	l.TPM = 6000
	ask := func(s *Split, now int64, c Call, want Verdict, at int64) {
		t.Helper()
		if v, got := s.Ask(now, c); v != want || v == Wait && got != at {
			t.Fatalf("at %d: %s until %d, want %s until %d", now, v, got, want, at)
		}
	}
	// Half of 6000 tokens a minute, 50 a second.
	s := NewSplit(false, NewShare(l, 2))
	c := Call{Input: 1500, MaxOutput: 1000}
	ask(s, 0, c, Admit, 0)
	s.Start(0, c)
	ask(s, 0, c, Wait, 40*second+1)
	// It used 1600 of the 2500: 900 come back.
	s.Done(0, &Sample{Call: c, Class: model.ClassOK, Input: 1500, Output: 100})
	ask(s, 0, c, Wait, 22*second+1)
	// A refused one used none.
	ask(s, 22*second, c, Admit, 0)
	s.Start(22*second, c)
	s.Done(22*second, &Sample{Call: c, Class: model.ClassRateLimited})
	ask(s, 22*second, c, Admit, 0)
	// Larger than the bucket: it waits for a full one.
	big := Call{Input: 5000}
	ask(s, 22*second, big, Wait, 32*second+1)
	s.Start(32*second, big)
	ask(s, 32*second, Call{Input: 1}, Wait, 32*second+40*second+20*millisecond+1)

	// A provider that charges max_tokens gives nothing back.
	s = NewSplit(true, NewShare(l, 2))
	s.Start(0, c)
	s.Done(0, &Sample{Call: c, Class: model.ClassOK, Input: 1500, Output: 100})
	ask(s, 0, c, Wait, 40*second+1)
}

// TestSplitShares: a call needs room in its channel's and its account's share.
func TestSplitShares(t *testing.T) {
	channel, account := nothing(), nothing()
	channel.Concurrency = 3
	account.RequestsPerDay = 2
	group := NewShare(account, 1)
	a := &line{t: t, l: NewSplit(false, NewShare(channel, 1), group)}
	b := &line{t: t, l: NewSplit(false, NewShare(channel, 1), group)}
	a.send()
	b.send()
	a.ask(Wait, day/2+1)
	b.ask(Wait, day/2+1)

	open := &line{t: t, l: NewSplit(false, NewShare(nothing(), 7))}
	if n := len(open.fill()); n != 10_000 {
		t.Errorf("%d admitted where nothing is told, want all", n)
	}
}
