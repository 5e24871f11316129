package web

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"weir/controller"
	"weir/model"
)

func (h *handler) healthz(w http.ResponseWriter, r *http.Request) {
	if !h.Controller.Alive(r.Context(), time.Second) {
		refuse(w, http.StatusServiceUnavailable, "the loop does not turn")
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// readiness is what readyz says.
type readiness struct {
	Ready    bool   `json:"ready"`
	CaughtUp bool   `json:"caught_up"`
	Leads    bool   `json:"leads"`
	Leader   string `json:"leader"`
	Lag      uint64 `json:"lag_events"`
}

func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	s, err := h.Controller.Status(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	ready := readiness{Ready: s.CaughtUp && s.Term > 0, CaughtUp: s.CaughtUp, Leads: s.Leads, Leader: s.Leader, Lag: s.Lag}
	status := http.StatusOK
	if !ready.Ready {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, ready)
}

func (h *handler) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if h.Metrics != nil {
		h.Metrics(w)
		metrics.WriteGaugeFloat64(w, `weir_bound_used_ratio{bound="pages"}`, float64(len(h.viewers))/maxLive)
	}
}

// status is what status says.
type status struct {
	controller.Status
	Fleet  string      `json:"fleet"`
	Now    model.Nanos `json:"now_ns"`
	Params string      `json:"params"`
	// Guard is how the newest push of parameters is watched, if it is.
	Guard    *model.FleetGuard `json:"guard,omitempty"`
	Channels int               `json:"channels"`
	Agents   int               `json:"agents"`
	Counters counters          `json:"counters"`
}

// counters are the fold's, in the API's names.
type counters struct {
	Records         uint64 `json:"records"`
	Attempts        uint64 `json:"attempts"`
	Lost            uint64 `json:"lost_attempts"`
	Repeated        uint64 `json:"repeated_reports"`
	Unreadable      uint64 `json:"unreadable"`
	Unknown         uint64 `json:"unknown_kinds"`
	UnknownChannel  uint64 `json:"unknown_channel"`
	DuplicateAgents uint64 `json:"duplicate_agents"`
	TooManyAgents   uint64 `json:"too_many_agents"`
	StaleTerm       uint64 `json:"stale_term"`
	StaleRefusals   uint64 `json:"stale_refusals"`
	Forgotten       uint64 `json:"forgotten_agents"`
	Rebases         uint64 `json:"rebases"`
	BadRebases      uint64 `json:"bad_rebases"`
}

func countersOf(c *model.Counters) counters {
	return counters{
		Records: c.Records, Attempts: c.Attempts, Lost: c.Lost, Repeated: c.Repeated,
		Unreadable: c.Unreadable, Unknown: c.Unknown, UnknownChannel: c.UnknownChannel,
		DuplicateAgents: c.DuplicateAgents, TooManyAgents: c.TooManyAgents, StaleTerm: c.StaleTerm,
		StaleRefusals: c.StaleRefusals, Forgotten: c.Forgotten, Rebases: c.Rebases, BadRebases: c.BadRebases,
	}
}

func (h *handler) status(w http.ResponseWriter, r *http.Request) {
	s, _, err := h.now(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, s)
}

// channels is what channels says.
type channels struct {
	Seq      uint64               `json:"seq"`
	Channels []model.FleetChannel `json:"channels"`
	Pools    []model.FleetPool    `json:"pools"`
	Days     []model.FleetDay     `json:"days"`
	Routes   []model.FleetRoute   `json:"routes"`
}

func (h *handler) channels(w http.ResponseWriter, r *http.Request) {
	v, err := h.Controller.View(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, channels{Seq: v.Seq, Channels: list(v.Channels), Pools: list(v.Pools), Days: list(v.Days), Routes: list(v.Routes)})
}

func (h *handler) channel(w http.ResponseWriter, r *http.Request) {
	v, err := h.Controller.View(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	for i := range v.Channels {
		if v.Channels[i].Name == r.PathValue("name") {
			answer(w, http.StatusOK, v.Channels[i])
			return
		}
	}
	refuse(w, http.StatusNotFound, fmt.Sprintf("there is no channel %q", r.PathValue("name")))
}

// agents is what agents says.
type agents struct {
	Seq    uint64             `json:"seq"`
	Agents []model.FleetAgent `json:"agents"`
}

func (h *handler) agents(w http.ResponseWriter, r *http.Request) {
	v, err := h.Controller.View(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, agents{Seq: v.Seq, Agents: list(v.Agents)})
}

// list returns a list that is [] in JSON when it is empty.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// decisions is what decisions says.
type decisions struct {
	Decisions []controller.Decision `json:"decisions"`
}

func (h *handler) decisions(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	found, err := h.Controller.Decisions(q)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, decisions{Decisions: list(found)})
}

func parseQuery(r *http.Request) (q controller.DecisionQuery, err error) {
	form := r.URL.Query()
	number := func(name string, bits int) (n uint64) {
		text := form.Get(name)
		if text == "" || err != nil {
			return 0
		}
		if n, err = strconv.ParseUint(text, 10, bits); err != nil {
			err = fmt.Errorf("%s=%q is not a number from 0", name, text)
		}
		return n
	}
	q = controller.DecisionQuery{
		From: number("from", 64), To: number("to", 64), Limit: int(number("limit", 31)),
		Channel: form.Get("channel"), Agent: form.Get("agent"), Rule: form.Get("rule"),
		Oldest: form.Get("oldest") == "1" || form.Get("oldest") == "true",
	}
	return q, err
}

// parameters is what params says.
type parameters struct {
	Seq    uint64           `json:"seq"`
	Name   string           `json:"name"`
	By     string           `json:"by"`
	Why    string           `json:"why"`
	Hash   string           `json:"hash"`
	Params map[string]int64 `json:"params"`
	// Units are those of the numbers.
	Units map[string]string `json:"units"`
	// Watched is the newest push while it is watched: a canary's set is not
	// the one above.
	Watched *watched `json:"watched,omitempty"`
}

// watched is a set under guard.
type watched struct {
	*model.FleetGuard
	Params map[string]int64 `json:"params"`
}

func values(p *model.Params) map[string]int64 {
	all := map[string]int64{}
	for _, spec := range model.ParamSpecs() {
		all[spec.Name] = spec.Get(p)
	}
	return all
}

func units() map[string]string {
	all := map[string]string{}
	for _, spec := range model.ParamSpecs() {
		all[spec.Name] = spec.Unit
	}
	return all
}

func (h *handler) params(w http.ResponseWriter, r *http.Request) {
	set, seq, err := h.Controller.Params(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	v, err := h.Controller.View(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	p := parameters{Seq: seq, Name: set.Name, By: set.By, Why: set.Why, Hash: set.Params.Hash(), Params: values(&set.Params), Units: units()}
	if g := v.Guard; g != nil {
		p.Watched = &watched{g, values(&g.Params)}
	}
	answer(w, http.StatusOK, p)
}

// snapshot is the whole state for a backup.
type snapshot struct {
	Seq    uint64 `json:"seq"`
	Digest string `json:"digest"`
	State  []byte `json:"state"`
}

func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) {
	data, digest, seq, err := h.Controller.Snapshot(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, snapshot{Seq: seq, Digest: hex.EncodeToString(digest[:]), State: data})
}
