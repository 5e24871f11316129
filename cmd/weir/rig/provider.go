package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"weir/cmd/weir/emulator"
	"weir/cmd/weir/load"
	"weir/sim/incident"
	"weir/sim/provider"
	"weir/sim/workload"
)

// Providers are all emulated providers of an incident.
type Providers struct {
	incident *incident.Incident
	all      []*service
	door     string // every provider by route
	stop     func(ctx context.Context) error
}

// service is one provider on a port.
type service struct {
	*emulator.Server
	name, url string
	stop      func(ctx context.Context) error
}

// StartProviders starts every provider of an incident at its first instant.
func StartProviders(inc *incident.Incident, seed uint64) (*Providers, error) {
	p := &Providers{incident: inc}
	for i := range inc.Providers {
		s, err := startService(inc, inc.Providers[i].Name, seed)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.all = append(p.all, s)
	}
	if len(p.all) == 1 {
		p.door = p.all[0].url
		return p, nil
	}
	var err error
	if p.door, p.stop, err = serve(http.HandlerFunc(p.route)); err != nil {
		return nil, errors.Join(fmt.Errorf("start providers: %w", err), p.Close())
	}
	return p, nil
}

func startService(inc *incident.Incident, name string, seed uint64) (*service, error) {
	e, err := emulator.New(emulator.Config{Incident: inc, Provider: name, Seed: seed})
	if err != nil {
		return nil, fmt.Errorf("start provider: %w", err)
	}
	s := &service{Server: e, name: name}
	if s.url, s.stop, err = serve(e); err != nil {
		e.Close()
		return nil, fmt.Errorf("start provider: %w", err)
	}
	return s, nil
}

// Door is the base URL, without /v1, at which an application without Weir
// finds the first channel of each route.
func (p *Providers) Door() string { return p.door }

// Upstreams are the base URLs of the channels' providers.
func (p *Providers) Upstreams() map[string]string {
	urls := map[string]string{}
	for i := range p.incident.Channels {
		ch := &p.incident.Channels[i]
		urls[ch.Name] = p.named(ch.Provider).url + "/v1"
	}
	return urls
}

// Reset starts every script again from its first instant with empty books.
func (p *Providers) Reset() {
	for _, s := range p.all {
		s.Reset()
	}
}

// Demand tells the books that a request is wanted, whoever holds it back
// afterwards: what could have been served is judged by that. It is a
// load.Options.Wanted.
func (p *Providers) Demand(_ time.Duration, r workload.Request) {
	s := p.first(p.incident.Workloads[r.Workload].Route)
	if s == nil {
		return
	}
	deadline := time.Duration(0)
	if r.Deadline > 0 {
		deadline = time.Duration(r.Deadline - r.At)
	}
	s.Demand(provider.Demand{
		Request: emulator.RequestKey(load.RequestName(r.ID)), Input: r.Input, Output: r.Output, MaxTokens: r.MaxTokens,
	}, deadline)
}

// Reports are the providers' truth as of now, in the incident's order.
func (p *Providers) Reports() []emulator.Report {
	out := make([]emulator.Report, len(p.all))
	for i, s := range p.all {
		out[i] = s.Report()
	}
	return out
}

// Close ends the providers; calls in flight are cut off.
func (p *Providers) Close() error {
	var faults []error
	if p.stop != nil {
		faults = append(faults, p.stop(context.Background()))
	}
	for _, s := range p.all {
		faults = append(faults, s.stop(context.Background()))
		s.Close()
	}
	return errors.Join(faults...)
}

func (p *Providers) named(name string) *service {
	for _, s := range p.all {
		if s.name == name {
			return s
		}
	}
	panic("rig: BUG: no provider " + name) // the incident was checked
}

// first is the provider of a route's first channel, nil for no such route.
func (p *Providers) first(route string) *service {
	for i := range p.incident.Routes {
		if p.incident.Routes[i].Name != route {
			continue
		}
		for _, t := range p.incident.Routes[i].Tiers {
			for _, ch := range t.Channels {
				for k := range p.incident.Channels {
					if p.incident.Channels[k].Name == ch.Channel {
						return p.named(p.incident.Channels[k].Provider)
					}
				}
			}
		}
	}
	return nil
}

// mostBody bounds what is read of a call to find its route; the load's are far
// smaller.
const mostBody = 1 << 20

// route hands a call to the provider of its route's first channel.
func (p *Providers) route(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	var call struct {
		Model string `json:"model"`
	}
	if err != nil || json.Unmarshal(body, &call) != nil {
		http.Error(w, "the body is no call", http.StatusBadRequest)
		return
	}
	s := p.first(call.Model)
	if s == nil {
		http.Error(w, "there is no such route", http.StatusNotFound)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.ServeHTTP(w, r)
}
