package proxy

import (
	"net/http"
	"slices"

	"weir/model"
)

// modelEntry is a route in the shape of a model.
type modelEntry struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	At      string `json:"created_at"`
	OwnedBy string `json:"owned_by"`
	Type    string `json:"type"`
	Name    string `json:"display_name"`
}

// modelPage is a list of them, in the shape of both APIs.
type modelPage struct {
	Object string       `json:"object"`
	Data   []modelEntry `json:"data"`
	More   bool         `json:"has_more"`
	First  *string      `json:"first_id"`
	Last   *string      `json:"last_id"`
}

func entry(route string) modelEntry {
	return modelEntry{ID: route, Object: "model", At: "1970-01-01T00:00:00Z", OwnedBy: "weir", Type: "model", Name: route}
}

// models lists the routes.
func (p *Proxy) models(w http.ResponseWriter, _ *http.Request) {
	list := []modelEntry{}
	for _, r := range p.client.Fleet().Routes {
		list = append(list, entry(r.Name))
	}
	page := modelPage{Object: "list", Data: list}
	if len(list) > 0 {
		page.First, page.Last = &list[0].ID, &list[len(list)-1].ID
	}
	writeJSON(w, page)
}

// model shows one route.
func (p *Proxy) model(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.ContainsFunc(p.client.Fleet().Routes, func(c model.RouteConfig) bool { return c.Name == name }) {
		write(w, r, fault(http.StatusNotFound, "model_not_found", "no route has that name"))
		return
	}
	writeJSON(w, entry(name))
}

// queuePage is how the agent stands.
type queuePage struct {
	Mode    string `json:"mode"`
	Alone   bool   `json:"alone"`
	Waiting int    `json:"waiting"`
	Backoff int    `json:"backoff"`
	Running int    `json:"running"`

	Routes   []routeState   `json:"routes"`
	Channels []channelState `json:"channels"`
}

type routeState struct {
	Route       string  `json:"route"`
	Batch       int     `json:"batch"`
	Normal      int     `json:"normal"`
	Interactive int     `json:"interactive"`
	PaceS       float64 `json:"pace_s"`
	// Next is what a request that comes now can expect, by priority.
	Next map[string]next `json:"next"`
}

// next is a place in a queue and how long it may take; null means that nothing
// tells yet.
type next struct {
	Position int      `json:"position"`
	MinS     float64  `json:"wait_min_s"`
	MaxS     *float64 `json:"wait_max_s"`
}

func (p *Proxy) next(v *model.GateView, route string) map[string]next {
	all := map[string]next{}
	for _, priority := range [...]model.Priority{model.PriorityBatch, model.PriorityNormal, model.PriorityInteractive} {
		f, ok := p.client.ForecastBy(v, route, priority)
		if !ok {
			continue
		}
		n := next{Position: f.Position, MinS: f.Least.Seconds()}
		if f.Most >= 0 {
			most := f.Most.Seconds()
			n.MaxS = &most
		}
		all[priority.String()] = n
	}
	return all
}

type channelState struct {
	Channel  string  `json:"channel"`
	Mode     string  `json:"mode"`
	Breaker  string  `json:"breaker"`
	Slots    int64   `json:"slots"`
	InFlight int64   `json:"in_flight"`
	Held     int64   `json:"held"`
	Queued   int64   `json:"queued"`
	WaitS    float64 `json:"wait_s"`
	Reason   string  `json:"reason"`
}

// queue shows what waits and why.
func (p *Proxy) queue(w http.ResponseWriter, _ *http.Request) {
	var v model.GateView
	p.client.View(&v)
	page := queuePage{
		Mode: p.client.Mode().String(), Alone: v.Alone, Waiting: v.Waiting, Backoff: v.Backoff, Running: v.Running,
		Routes: []routeState{}, Channels: []channelState{},
	}
	for _, q := range v.Queues {
		page.Routes = append(page.Routes, routeState{
			Route: q.Route, Batch: q.Waiting[model.PriorityBatch], Normal: q.Waiting[model.PriorityNormal],
			Interactive: q.Waiting[model.PriorityInteractive], PaceS: q.Pace.Duration().Seconds(), Next: p.next(&v, q.Route),
		})
	}
	for _, c := range v.Channels {
		page.Channels = append(page.Channels, channelState{
			Channel: c.Channel, Mode: c.Mode.String(), Breaker: c.Breaker.String(), Slots: c.Share, InFlight: c.InFlight,
			Held: c.Held, Queued: c.Queued, WaitS: c.Wait.Duration().Seconds(), Reason: c.Reason,
		})
	}
	writeJSON(w, page)
}
