package calibrate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// crowded is a law under which nothing is refused and crowds are slow.
func crowded(dice *rand.Rand, k int) (law string, slots int) {
	slots = 30 + dice.IntN(90)
	law = fmt.Sprintf("    concurrency: %d\n    queue: 100000\n", slots)
	if k%3 > 0 {
		law += fmt.Sprintf("    slowdown: {from: %.2f, factor: %.2f}\n", 0.4+0.4*dice.Float64(), 1.5+2*dice.Float64())
	}
	return law, slots
}

// crowd lets so many callers ask one after the other and keeps what they see.
func crowd(p incident.Provider, seed uint64, length time.Duration, callers func(at float64) float64) *Log {
	dice := rand.New(rand.NewPCG(seed, 23))
	prov, _ := provider.New(provider.Config{Incident: p, Seed: seed})
	log := &Log{}
	running := map[uint64]Call{}
	var id uint64
	for now := int64(0); now < int64(length); now += int64(10 * time.Millisecond) {
		for _, e := range prov.Advance(now, nil) {
			if c, ok := running[e.ID]; ok && e.Kind == provider.Done {
				delete(running, e.ID)
				c.Took = epoch + model.Nanos(e.At) - c.Sent
				log.Add(&c)
			}
		}
		for float64(len(running)) < callers(float64(now)/float64(length)) {
			id++
			c := Call{
				Sent: epoch + model.Nanos(now), Request: id, Try: 1, Channel: "main", Tenant: "x", RetryAfter: -1,
				Class: model.ClassOK, Status: 200, Input: 500 + dice.Int64N(4000), Output: 50 + dice.Int64N(400),
			}
			if prov.Offer(now, provider.Call{ID: id, Request: id, Input: c.Input, Output: c.Output, Try: 1}).Ticket == 0 {
				break
			}
			running[id] = c
		}
	}
	return log
}

// TestCapacities draws worlds that refuse nothing and wants what gets the most
// done inside the interval of 90 % in the middle of the log. All fifty take a
// quarter of an hour.
func TestCapacities(t *testing.T) {
	worlds, least := 3, 2
	if os.Getenv("WEIR_LONG") != "" {
		worlds, least = 50, 42
	}
	held := 0
	var widths []float64
	for k := range worlds {
		dice := rand.New(rand.NewPCG(uint64(k), 17))
		law, slots := crowded(dice, k)
		inc := truth(t, law+service)
		_, knows := provider.New(provider.Config{Incident: inc})
		want := float64(knows.BestInFlight())
		levels := [8]float64{}
		for i := range levels {
			levels[i] = want * (0.4 + 1.1*dice.Float64())
		}
		log := crowd(inc, uint64(k), 150*time.Second, func(at float64) float64 { return levels[int(at*8)] })
		p := log.first(t)
		c := p.Capacity
		if c == nil {
			t.Logf("world %d: %s: no capacity", k, strings.Join(strings.Fields(law), " "))
			widths = append(widths, math.Inf(1))
			continue
		}
		e := c.Bends[len(c.Bends)/2].Estimate
		if e.Open {
			e.High = math.Inf(1)
		}
		widths = append(widths, (e.High-e.Low)/want)
		if e.Holds(want) {
			held++
		} else {
			t.Logf("world %d: %+v does not hold %v of %d: %s", k, e, want, slots, strings.Join(strings.Fields(law), " "))
		}
	}
	slices.Sort(widths)
	t.Logf("%d of %d intervals hold the true capacity; half are narrower than %.3f of it", held, worlds, widths[len(widths)/2])
	if held < least {
		t.Errorf("%d of %d intervals hold the true capacity, want %d", held, worlds, least)
	}
	if m := widths[len(widths)/2]; worlds == 50 && m > 0.35 { // the middle one of three is luck
		t.Errorf("the median interval is %.2f of the capacity wide, want 0.35 at most", m)
	}
}

// TestNoCapacity: what is slow by itself, or never crowded, tells of none.
func TestNoCapacity(t *testing.T) {
	for name, law := range map[string]string{
		"never crowded": "    concurrency: 400\n    slowdown: {from: 0.7, factor: 4}\n" + service,
		"slow by itself": service + "    changes: [{at: 60s, set: {service: {base: 800ms, prefill_tokens_per_s: 5000, output_tokens_per_s: 100, cv: 0.2}}}," +
			" {at: 90s, set: {service: {base: 400ms, prefill_tokens_per_s: 10000, output_tokens_per_s: 200, cv: 0.2}}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			log := record(truth(t, law), 4, 2*time.Minute, waves(20))
			if p := log.first(t); p.Capacity != nil || !p.Concurrency[0].Open {
				t.Errorf("%+v %+v", p.Capacity, p.Concurrency)
			}
		})
	}
}

// TestCapacityMoves: the provider shrinks for a minute.
func TestCapacityMoves(t *testing.T) {
	inc := truth(t, "    concurrency: 80\n    queue: 100000\n    slowdown: {from: 0.7, factor: 3}\n    changes: [{at: 60s, over: 60s, set: {concurrency: 40}}]\n"+service)
	log := crowd(inc, 2, 3*time.Minute, func(at float64) float64 { return 62 - 40*at + 10*float64(int(at*30)%2) })
	p := log.first(t)
	if p.Capacity == nil {
		t.Fatalf("no capacity: %+v", p)
	}
	served, knows := provider.New(provider.Config{Incident: inc})
	for at := 10 * model.Second; at < 170*model.Second; at += 10 * model.Second {
		served.Advance(int64(at), nil)
		if got, want := p.Capacity.at(at), float64(knows.BestInFlight()); math.Abs(got/want-1) > 0.1 {
			t.Errorf("at %s: %.1f, in truth %v", at.Duration(), got, want)
		}
	}
}
