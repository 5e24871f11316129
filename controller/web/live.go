package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"weir/controller"
	"weir/model"
)

const (
	// liveEvery is how often a page is told, liveWrite how long one telling
	// may take before the page is given up.
	liveEvery = time.Second
	liveWrite = 10 * time.Second
	// maxLive bounds the pages that are told at a time.
	maxLive = 64
	// liveDecisions is how many decisions one telling carries at most; a page
	// that wants more asks for them.
	liveDecisions = 100
)

// telling is one event: the fleet as it is, and what was decided since.
type telling struct {
	Now       int64                 `json:"unix_ms"`
	Status    status                `json:"status"`
	Channels  []model.FleetChannel  `json:"channels"`
	Pools     []model.FleetPool     `json:"pools"`
	Days      []model.FleetDay      `json:"days"`
	Routes    []model.FleetRoute    `json:"routes"`
	Decisions []controller.Decision `json:"decisions"`
}

// live tells a page once a second until it goes away, as server-sent events.
func (h *handler) live(w http.ResponseWriter, r *http.Request) {
	select {
	case h.viewers <- struct{}{}:
		defer func() { <-h.viewers }()
	default:
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d pages are told already", maxLive))
		return
	}
	// The server's time to read a request would end this one. With a body it
	// stays: nobody here reads that, and the server would wait for it.
	if r.ContentLength == 0 {
		if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
			fail(w, err)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	var after uint64
	for {
		if err := h.tell(w, r, &after); err != nil {
			return // the page went away, or the controller ends
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// tell writes one event. after is the last record whose decisions were told.
func (h *handler) tell(w http.ResponseWriter, r *http.Request, after *uint64) error {
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	t, err := h.telling(ctx, *after)
	if err != nil {
		return err
	}
	if n := len(t.Decisions); n > 0 {
		*after = t.Decisions[0].Seq
	}
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	out := http.NewResponseController(w)
	if err := out.SetWriteDeadline(time.Now().Add(liveWrite)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
		return err
	}
	return out.Flush()
}

func (h *handler) telling(ctx context.Context, after uint64) (t telling, err error) {
	var v model.FleetView
	if t.Status, v, err = h.now(ctx); err != nil {
		return t, err
	}
	t.Channels, t.Pools, t.Days, t.Routes = list(v.Channels), list(v.Pools), list(v.Days), list(v.Routes)
	t.Now = time.Now().UnixMilli()
	t.Decisions, err = h.Controller.Decisions(controller.DecisionQuery{From: after + 1, Limit: liveDecisions})
	t.Decisions = list(t.Decisions)
	return t, err
}

// now is the fleet as it is.
func (h *handler) now(ctx context.Context) (s status, v model.FleetView, err error) {
	at, err := h.Controller.Status(ctx)
	if err != nil {
		return s, v, err
	}
	if v, err = h.Controller.View(ctx); err != nil {
		return s, v, err
	}
	at.Faults = list(at.Faults)
	return status{
		Status: at, Fleet: v.Fleet, Now: v.Now, Params: v.Params, Guard: v.Guard,
		Channels: len(v.Channels), Agents: len(v.Agents), Counters: countersOf(&v.Counters),
	}, v, nil
}
