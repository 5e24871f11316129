package demo

import (
	"context"
	"fmt"
	"math"
	"time"

	"weir/cmd/weir/emulator"
	"weir/cmd/weir/load"
	"weir/sim/draw"
	"weir/sim/incident"
	"weir/sim/provider"
	"weir/sim/workload"
)

// service is an emulated provider on a port of loopback.
type service struct {
	*emulator.Server
	url  string
	stop func(ctx context.Context) error
}

func startProvider(inc *incident.Incident, seed uint64) (*service, error) {
	e, err := emulator.New(emulator.Config{Incident: inc, Seed: seed})
	if err != nil {
		return nil, fmt.Errorf("start provider: %w", err)
	}
	s := &service{Server: e}
	if s.url, s.stop, err = serve(e); err != nil {
		e.Close()
		return nil, fmt.Errorf("start provider: %w", err)
	}
	return s, nil
}

func (s *service) close() error {
	err := s.stop(context.Background())
	s.Close()
	return err
}

// demand tells the provider's books that a request is wanted, whoever holds it
// back afterwards: what could have been served is judged by that.
func (s *service) demand(_ time.Duration, r workload.Request) {
	deadline := time.Duration(0)
	if r.Deadline > 0 {
		deadline = time.Duration(r.Deadline - r.At)
	}
	s.Demand(provider.Demand{
		Request: draw.Name(load.RequestName(r.ID)), Input: r.Input, Output: r.Output, MaxTokens: r.MaxTokens,
	}, deadline)
}

// fill puts the provider's truth into a sample.
func (s *service) fill(to *sample) {
	r := s.Report()
	to.books = r.Books
	to.capacity, to.best = cap64(r.Concurrency), cap64(r.BestInFlight)
}

// cap64 is a limit as a number, NaN where there is none.
func cap64(n int64) float64 {
	if n < 0 {
		return math.NaN()
	}
	return float64(n)
}
