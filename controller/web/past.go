package web

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"weir/controller"
	"weir/controller/history"
	"weir/model"
)

// Past finds what channels were; *history.Recorder is one.
type Past interface {
	Points(channel string, from, to time.Time) ([]history.Point, error)
}

// Rewind finds the fleet as it was; *history.Rewind is one.
type Rewind interface {
	At(ctx context.Context, at time.Time) (model.FleetView, error)
}

// was is the fleet at a moment that is over.
type was struct {
	Unix      int64                 `json:"unix"`
	Seq       uint64                `json:"seq"`
	Leader    string                `json:"leader"`
	Term      uint64                `json:"term"`
	Channels  []model.FleetChannel  `json:"channels"`
	Pools     []model.FleetPool     `json:"pools"`
	Days      []model.FleetDay      `json:"days"`
	Routes    []model.FleetRoute    `json:"routes"`
	Agents    []model.FleetAgent    `json:"agents"`
	Decisions []controller.Decision `json:"decisions"`
}

// at answers with the fleet as it was at a time in seconds since 1970, and what
// was decided before it.
func (h *handler) at(w http.ResponseWriter, r *http.Request) {
	if h.Rewind == nil {
		refuse(w, http.StatusNotFound, "no history is kept here")
		return
	}
	if r.FormValue("time") == "" {
		refuse(w, http.StatusBadRequest, "time is missing: seconds since 1970")
		return
	}
	at, err := moment(r, "time", time.Time{})
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	v, err := h.Rewind.At(r.Context(), at)
	switch {
	case errors.Is(err, history.ErrBeyond):
		refuse(w, http.StatusNotFound, err.Error())
		return
	case errors.Is(err, history.ErrBusy):
		w.Header().Set("Retry-After", "2")
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	case errors.Is(err, context.DeadlineExceeded):
		refuse(w, http.StatusServiceUnavailable, "too much happened between that moment and the state kept before it; weir log explain has no such bound")
		return
	case err != nil:
		fail(w, err)
		return
	}
	decided, err := h.Controller.Decisions(controller.DecisionQuery{To: v.Seq, Limit: rewindDecisions})
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, was{
		Unix: at.Unix(), Seq: v.Seq, Leader: v.Controller, Term: v.Term,
		Channels: list(v.Channels), Pools: list(v.Pools), Days: list(v.Days), Routes: list(v.Routes), Agents: list(v.Agents), Decisions: list(decided),
	})
}

// rewindDecisions is how many decisions go with a moment.
const rewindDecisions = 200

// points is what history says: a row per point, a name per column.
type points struct {
	Channel string    `json:"channel"`
	Columns []string  `json:"columns"`
	Points  [][]int64 `json:"points"`
}

// pastColumns are the names of a row, in the order of row.
func pastColumns() []string {
	return []string{
		"unix", "window_milli", "leased_slots", "inflight", "held", "queued", "weight_ppm", "latency_ppm", "breaker", "epoch",
		"ok_total", "refused_total", "failed_total", "mistaken_total", "tokens_in_total", "tokens_out_total", "would_refuse_total",
	}
}

func row(p *history.Point) []int64 {
	return []int64{
		p.Unix, p.Window, p.Leased, p.InFlight, p.Held, p.Queued, p.Weight, p.Latency, int64(p.Breaker), p.Epoch,
		p.OK, p.Refused, p.Failed, p.Mistaken, p.TokensIn, p.TokensOut, p.WouldRefuse,
	}
}

// history answers with a channel's points: from and to in seconds since 1970,
// the last hour if neither is there; as a table with format=csv.
func (h *handler) history(w http.ResponseWriter, r *http.Request) {
	if h.Past == nil {
		refuse(w, http.StatusNotFound, "no history is kept here")
		return
	}
	now := time.Now()
	from, err := moment(r, "from", now.Add(-time.Hour))
	to, err2 := moment(r, "to", now)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	case err2 != nil:
		refuse(w, http.StatusBadRequest, err2.Error())
		return
	case to.Before(from):
		refuse(w, http.StatusBadRequest, "from is after to")
		return
	}
	name := r.FormValue("channel")
	found, err := h.Past.Points(name, from, to)
	if err != nil {
		fail(w, err)
		return
	}
	if r.FormValue("format") == "csv" {
		table(w, found)
		return
	}
	rows := make([][]int64, len(found))
	for i := range found {
		rows[i] = row(&found[i])
	}
	answer(w, http.StatusOK, points{Channel: name, Columns: pastColumns(), Points: rows})
}

// table writes points as comma-separated values.
func table(w http.ResponseWriter, found []history.Point) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="weir-history.csv"`)
	out := csv.NewWriter(w)
	_ = out.Write(pastColumns()) // the client went away
	for i := range found {
		cells := make([]string, 0, len(pastColumns()))
		for _, n := range row(&found[i]) {
			cells = append(cells, strconv.FormatInt(n, 10))
		}
		_ = out.Write(cells) // the client went away
	}
	out.Flush()
}

// latest is the last second that a question may name: the year 9999.
const latest = 253402300799

func moment(r *http.Request, name string, otherwise time.Time) (time.Time, error) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > latest {
		return time.Time{}, fmt.Errorf("%s=%q is no time in seconds since 1970", name, text)
	}
	return time.Unix(n, 0), nil
}
