package model

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestBucketAdvanceHoweverOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, maxRate).Draw(t, "rate")
		if rapid.Bool().Draw(t, "small") {
			rate = rapid.Int64Range(1, 1000).Draw(t, "rate")
		}
		b := bucket{Rate: rate, Burst: rate}
		b.Level = rapid.Int64Range(-maxDebt*rate, rate).Draw(t, "level")
		withheld := rapid.Int64Range(0, 2*rate).Draw(t, "withheld")
		top := rapid.Int64Range(-rate, rate).Draw(t, "top")
		span := rapid.Int64Range(0, int64(100*Hour)).Draw(t, "span")
		cut := rapid.Int64Range(0, span).Draw(t, "cut")
		twice, once := b, b
		twice.advance(Nanos(cut), withheld, top)
		twice.advance(Nanos(span-cut), withheld, top)
		once.advance(Nanos(span), withheld, top)
		if twice != once {
			t.Fatalf("advance %d and %d: %+v, at once %+v", cut, span-cut, twice, once)
		}
		if once.Level > max(b.Level, top) || once.Level < b.Level || once.Rem < 0 || once.Rem >= int64(Minute) {
			t.Fatalf("%+v became %+v", b, once)
		}
	})
}

func TestBucketEdges(t *testing.T) {
	var b bucket
	b.advance(Hour, 0, 100)
	if b != (bucket{}) {
		t.Errorf("without a rate: %+v", b)
	}
	b.set(60, 60)
	if b.Level != 60 {
		t.Errorf("a new limit begins with %d of 60", b.Level)
	}
	b.Level = 0
	b.advance(-Second, 0, 60)
	b.advance(0, 0, 60)
	b.advance(999*Millisecond, 0, 60)
	if b.Level != 0 {
		t.Errorf("%d before a whole one", b.Level)
	}
	b.advance(Millisecond, 0, 60)
	if b.Level != 1 {
		t.Errorf("%d after a second at 60 a minute", b.Level)
	}
	if wait, ok := b.after(3, 0); !ok || wait < 2*Second || wait > 2*Second+1 {
		t.Errorf("two more in %s %v", wait, ok)
	}
	if _, ok := b.after(61, 0); ok {
		t.Error("more than a burst would come")
	}
	if _, ok := b.after(3, 60); ok {
		t.Error("with everything withheld more would come")
	}
	b.advance(math.MaxInt64, 0, 60)
	if b.Level != 60 {
		t.Errorf("after all time %d", b.Level)
	}
	b.debit(math.MaxInt64)
	if b.Level != -600 {
		t.Errorf("the deepest debt is %d", b.Level)
	}
	b.set(math.MaxInt64, math.MaxInt64)
	b.debit(math.MaxInt64)
	b.advance(math.MaxInt64, 0, b.Burst)
	if b.Level != maxRate {
		t.Errorf("at the largest rate %d", b.Level)
	}
	if b.set(10, 10); b.Level != 10 {
		t.Errorf("a smaller limit leaves %d", b.Level)
	}
}
