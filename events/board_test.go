package events_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/events"
	"weir/model"
)

// TestBoard changes channels at random, loses messages, and has agents join at
// random: the last full set and the last changes that were sent are everything.
func TestBoard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b events.Board
		var sentFull, sentChanges *model.LimitSet
		truth := make(map[string]uint64) // revision of each channel
		revision := uint64(0)
		send := func(full bool) {
			l := &model.LimitSet{Term: 1, Seq: revision}
			names := rapid.SliceOfDistinct(rapid.IntRange(0, 9), rapid.ID).Draw(t, "channels")
			if full {
				names = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
			}
			for _, n := range names {
				revision++
				name := fmt.Sprint(n)
				truth[name] = revision
				l.Channels = append(l.Channels, model.ChannelLimit{Channel: name, Revision: revision})
			}
			set, full := b.Post(l, full, time.Time{})
			if rapid.IntRange(0, 3).Draw(t, "fate") == 0 {
				return // not stored: what comes next has to make up for it
			}
			b.Settled(full)
			if full {
				sentFull = set
			} else {
				sentChanges = set
			}
			got := make(map[string]uint64)
			for _, set := range []*model.LimitSet{sentFull, sentChanges} {
				if set == nil {
					continue
				}
				for _, c := range set.Channels {
					got[c.Channel] = max(got[c.Channel], c.Revision)
				}
			}
			if sentFull != nil && !maps.Equal(got, truth) {
				t.Fatalf("a late joiner knows %v, the truth is %v", got, truth)
			}
		}
		send(true)
		for range rapid.IntRange(1, 30).Draw(t, "messages") {
			send(rapid.IntRange(0, 9).Draw(t, "kind") == 0)
		}
	})
}

// TestBoardWait repeats a channel's wait as what is left of it.
func TestBoardWait(t *testing.T) {
	var b events.Board
	now := time.Unix(0, 0)
	full := &model.LimitSet{Term: 1, Channels: []model.ChannelLimit{{Channel: "a"}, {Channel: "b"}, {Channel: "c"}, {Channel: "d"}, {Channel: "e"}}}
	_, isFull := b.Post(full, true, now)
	b.Settled(isFull)
	held := &model.LimitSet{Term: 1, Channels: []model.ChannelLimit{{Channel: "a", Wait: 10 * model.Second}}}
	b.Post(held, false, now)
	other := &model.LimitSet{Term: 1, Channels: []model.ChannelLimit{{Channel: "b"}}}
	for after, want := range map[time.Duration]model.Nanos{3 * time.Second: 7 * model.Second, time.Minute: 0} {
		set, isFull := b.Post(other, false, now.Add(after))
		if isFull || len(set.Channels) != 2 || set.Channels[0].Wait != want {
			t.Errorf("after %v: full %v, %+v; want a wait of %v", after, isFull, set.Channels, want)
		}
	}
}

// TestBoardTerm forgets what an older term said.
func TestBoardTerm(t *testing.T) {
	var b events.Board
	_, full := b.Post(&model.LimitSet{Term: 1, Channels: []model.ChannelLimit{{Channel: "a"}, {Channel: "b"}}}, true, time.Time{})
	b.Settled(full)
	set, full := b.Post(&model.LimitSet{Term: 2, Channels: []model.ChannelLimit{{Channel: "a"}}}, false, time.Time{})
	if full || len(set.Channels) != 1 || set.Term != 2 {
		t.Errorf("full %v, %+v", full, set)
	}
}
