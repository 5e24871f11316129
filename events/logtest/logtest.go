// Package logtest holds implementations of the events contract to it: one
// suite of cases, each run against a fresh, empty bus.
//
// A case uses only package time and the bus it is given, so it can run inside
// a testing/synctest bubble when the bus can.
package logtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/events"
	"weir/model"
)

// Bus is what a case works with: one fleet's bus, empty.
type Bus struct {
	// Fleet is the fleet's name.
	Fleet string
	Log   events.Log
	// Writer and Inbox return those of an agent, Outbox a new controller's.
	Writer func(agent string) events.Writer
	Inbox  func(agent string) events.Inbox
	Outbox func() events.Outbox
	// Election returns a candidate of that name.
	Election func(name string) events.Election
}

// Case is one demand of the contract.
type Case struct {
	Name string
	Run  func(t *testing.T, b *Bus)
}

// Cases lists every demand of the contract.
func Cases() []Case {
	return []Case{
		{"append", testAppend},
		{"read from", testReadFrom},
		{"read waits", testReadWaits},
		{"read ends with its context", testReadContext},
		{"read close", testReadClose},
		{"at", testAt},
		{"empty", testEmpty},
		{"reanchor forward", testReanchorForward},
		{"reanchor back", testReanchorBack},
		{"reanchor under a reader", testReanchorReader},
		{"trim", testTrim},
		{"too large", testTooLarge},
		{"largest", testLargest},
		{"write", testWrite},
		{"write again", testWriteAgain},
		{"write after another process", testWriteAdopts},
		{"write after reanchor", testWriteAnchored},
		{"write after trim", testWriteTrimmed},
		{"load", testLoad},
		{"canceled", testCanceled},
		{"torn entry", testTorn},
		{"late joiner", testLateJoiner},
		{"live", testLive},
		{"changes add up", testChanges},
		{"term fences", testFence},
		{"term first", testTermFirst},
		{"own lease only", testOwnLease},
		{"lease without agent", testBadLease},
		{"listen ends", testListenEnds},
		{"election", testElection},
		{"election ends", testElectionEnds},
		{"election again", testElectionAgain},
	}
}

const patience = 20 * time.Second

// tick returns an encoded fact that says n.
func tick(n int) []byte {
	return events.Encode(nil, &model.Tick{Term: 1, Elapsed: model.Nanos(n)})
}

// report returns an agent's encoded report with that number.
func report(agent string, seq uint64) []byte {
	return events.Encode(nil, &model.Attempts{Source: model.Source{Agent: agent, Boot: 1, Seq: seq, Span: 1}})
}

func appendTicks(t *testing.T, l events.Log, n int) {
	t.Helper()
	for i := range n {
		if _, err := l.Append(t.Context(), tick(i)); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, l events.Log, from uint64) events.Reader {
	t.Helper()
	r, err := l.Read(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func next(t *testing.T, r events.Reader) events.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := r.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// nothing wants no further entry for a while.
func nothing(t *testing.T, r events.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if e, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next = entry %d on %s, %v; want none", e.Seq, e.Subject, err)
	}
}

func extent(t *testing.T, l events.Log, first, last uint64) {
	t.Helper()
	info, err := l.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.First != first || info.Last != last || info.Missing != 0 || info.Created <= 0 {
		t.Errorf("Info = %+v; want %d..%d", info, first, last)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v; want %v", what, err, want)
	}
}
