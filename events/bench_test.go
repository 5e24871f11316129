package events_test

import (
	"encoding/json"
	"testing"

	"weir/events"
	"weir/model"
)

func BenchmarkEncode(b *testing.B) {
	a := typical(100)
	buf := make([]byte, 0, 16<<10)
	for b.Loop() {
		events.Encode(buf, a)
	}
	perAttempt(b, len(events.Encode(nil, a)))
}

func BenchmarkDecode(b *testing.B) {
	data := events.Encode(nil, typical(100))
	d := events.NewDecoder()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
	perAttempt(b, len(data))
}

func BenchmarkEncodeJSON(b *testing.B) {
	a := typical(100)
	data, err := json.Marshal(a)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err = json.Marshal(a); err != nil {
			b.Fatal(err)
		}
	}
	perAttempt(b, len(data))
}

func BenchmarkDecodeJSON(b *testing.B) {
	data, err := json.Marshal(typical(100))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var a model.Attempts
		if err := json.Unmarshal(data, &a); err != nil {
			b.Fatal(err)
		}
	}
	perAttempt(b, len(data))
}

func perAttempt(b *testing.B, size int) {
	b.ReportMetric(float64(size)/100, "B/attempt")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/attempt")
}

// TestCodecAllocates holds writing and reading of a report free of allocation,
// once there is memory for it and its names are known.
func TestCodecAllocates(t *testing.T) {
	a := typical(100)
	buf := make([]byte, 0, 16<<10)
	if n := testing.AllocsPerRun(100, func() { events.Encode(buf, a) }); n != 0 {
		t.Errorf("%v allocations to write a report, want 0", n)
	}
	data := events.Encode(nil, a)
	if most := 48 * len(a.Attempts); len(data) > most {
		t.Errorf("%d bytes for %d attempts, want at most %d", len(data), len(a.Attempts), most)
	}
	d := events.NewDecoder()
	read := func() {
		if _, err := d.Decode(data); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations to read a report, want 0", n)
	}
}
