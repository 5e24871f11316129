package provider

import "testing"

// TestEnds predicts what then happens: calls that keep each other company to
// their ends, under a law that moves meanwhile.
func TestEnds(t *testing.T) {
	const law = `
		concurrency: 10
		service: {base: 1s, output_tokens_per_s: 100}
		slowdown: {from: 0.5, factor: 4}
	`
	for name, changes := range map[string]string{
		"steady":  "",
		"shrinks": "changes: [{at: 2s, over: 3s, set: {concurrency: 8}}]",
		"eases":   "changes: [{at: 5s, set: {slowdown: {factor: 1}}}]",
	} {
		p, truth := build(t, law+changes)
		for k := range uint64(7) {
			if !p.Offer(0, Call{ID: k, Request: k, Try: 1, Output: 900}).Accepted() {
				t.Fatalf("%s: call %d is refused", name, k)
			}
		}
		want := truth.Ends(0, Call{Output: 900})
		p.Offer(0, Call{ID: 7, Request: 7, Try: 1, Output: 900})
		events := p.Advance(60*sec, nil)
		last := events[len(events)-1]
		if last.Kind != Done || last.At < want-ms || last.At > want+ms {
			t.Errorf("%s: the last call is %v at %d, predicted %d", name, last.Kind, last.At, want)
		}
	}
}

// TestFree counts what may start.
func TestFree(t *testing.T) {
	p, truth := build(t, `
		concurrency: 100
		background: {concurrency: 20}
		service: {base: 1s}
	`)
	for k := range uint64(10) {
		offer(p, 0, k)
	}
	for share, want := range map[int64]int64{50: 20, 80: 50, 100: 70, 0: 70} {
		if got := truth.Free(share); got != want {
			t.Errorf("free at %d %% of the cap: %d, want %d", share, got, want)
		}
	}
	if _, truth = build(t, "service: {base: 1s}"); truth.Free(50) != Never {
		t.Error("a provider without a cap is full")
	}
}
