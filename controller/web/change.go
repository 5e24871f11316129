package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/events"
	"weir/model"
)

// order is the body of a command.
type order struct {
	Command string `json:"command"`
	Channel string `json:"channel"`
	Agent   string `json:"agent"`
	Value   int64  `json:"value"`
	// Mode is the value of set_mode by name. Without one a negative value gives
	// a channel's mode back to the configuration.
	Mode string `json:"mode"`
	// For is how long it holds, as Go writes durations; empty means until it
	// is taken back.
	For string `json:"for"`
	By  string `json:"by"`
	Why string `json:"why"`
}

// accepted is the answer to a change.
type accepted struct {
	Seq uint64 `json:"seq"`
}

// command takes an operator's order.
func (h *handler) command(w http.ResponseWriter, r *http.Request) {
	var o order
	if !decode(w, r, &o) {
		return
	}
	c, err := o.parse()
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	v, err := h.Controller.View(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	if text := missing(c, &v); text != "" {
		refuse(w, http.StatusNotFound, text)
		return
	}
	h.put(w, r, c, c.By, c.Command.String()+" "+c.Channel+c.Agent)
}

func (o *order) parse() (*model.Command, error) {
	c := &model.Command{Channel: o.Channel, Agent: o.Agent, Value: o.Value, By: cut(o.By), Why: cut(o.Why)}
	var names []string
	for kind := model.CommandPause; kind <= model.CommandSetMode; kind++ {
		names = append(names, kind.String())
		if kind.String() == o.Command {
			c.Command = kind
		}
	}
	if c.Command == 0 {
		return nil, fmt.Errorf("command %q is none of %s", o.Command, strings.Join(names, ", "))
	}
	if o.For != "" {
		d, err := time.ParseDuration(o.For)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("for %q is not a time like 30s or 5m", o.For)
		}
		c.For = model.Nanos(d)
	}
	if o.Mode != "" {
		mode, err := parseMode(o.Mode)
		if err != nil {
			return nil, err
		}
		c.Value = int64(mode)
	}
	return c, check(c)
}

func parseMode(name string) (model.Mode, error) {
	for _, m := range []model.Mode{model.ModeEnforce, model.ModeObserve} {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, fmt.Errorf("mode %q is none of enforce, observe", name)
}

// check says what a command lacks.
func check(c *model.Command) error {
	switch c.Command {
	case model.CommandForget:
		if c.Agent == "" {
			return fmt.Errorf("%s needs an agent", c.Command)
		}
		return nil
	case model.CommandSetMode:
		if c.Value == -1 && c.Channel != "" {
			return nil
		}
		if c.Value != int64(model.ModeEnforce) && c.Value != int64(model.ModeObserve) {
			return fmt.Errorf("%s needs a mode: enforce or observe", c.Command)
		}
		return nil // for the fleet when it names no channel
	case model.CommandSetWeight:
		if c.Value > int64(model.One) {
			return fmt.Errorf("weight %d ppm is over %d", c.Value, model.One)
		}
	case model.CommandSetLimit:
		if c.Value > maxSlots {
			return fmt.Errorf("limit %d slots is over %d", c.Value, maxSlots)
		}
	case model.CommandForceBreaker:
		if c.Value != 0 && c.Value != 1 {
			return fmt.Errorf("%s needs a value: 1 opens, 0 closes", c.Command)
		}
	case model.CommandPause, model.CommandResume, model.CommandRelease:
	}
	if c.Channel == "" {
		return fmt.Errorf("%s needs a channel", c.Command)
	}
	return nil
}

// maxSlots is more than any window may be.
const maxSlots = 1_000_000

// missing says what a command names that is not there.
func missing(c *model.Command, v *model.FleetView) string {
	if c.Channel != "" && !slices.ContainsFunc(v.Channels, func(ch model.FleetChannel) bool { return ch.Name == c.Channel }) {
		return fmt.Sprintf("there is no channel %q", c.Channel)
	}
	if c.Agent != "" && !slices.ContainsFunc(v.Agents, func(a model.FleetAgent) bool { return a.Agent == c.Agent }) {
		return fmt.Sprintf("there is no agent %q", c.Agent)
	}
	return ""
}

// maxText bounds what an operator says about a change, in bytes.
const maxText = 500

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "") }

// pushed is the body of a parameter set.
type pushed struct {
	Name   string           `json:"name"`
	By     string           `json:"by"`
	Why    string           `json:"why"`
	Params map[string]int64 `json:"params"`
	// Canary and Guard are as model.ParamSet has them.
	Canary string `json:"canary"`
	Guard  struct {
		For     model.Nanos `json:"for_ns"`
		Goodput model.PPM   `json:"goodput_ppm"`
		Waste   model.PPM   `json:"waste_ppm"`
	} `json:"guard"`
}

// pushParams puts parameters in force: those that the body names, the rest as
// they are.
func (h *handler) pushParams(w http.ResponseWriter, r *http.Request) {
	var p pushed
	if !decode(w, r, &p) {
		return
	}
	set, _, err := h.Controller.Params(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	if set.Params, err = p.apply(set.Params); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	set.Name, set.By, set.Why = cut(p.Name), cut(p.By), cut(p.Why)
	set.Canary, set.Guard = p.Canary, model.Guard(p.Guard)
	v, err := h.Controller.View(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	if err := checkGuard(&v, &set); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	h.put(w, r, &set, set.By, "params "+set.Name)
}

// checkGuard says what the fold would refuse of a guard.
func checkGuard(v *model.FleetView, set *model.ParamSet) error {
	var names []string
	for i := range v.Channels {
		names = append(names, v.Channels[i].Name)
	}
	return set.CheckGuard(names)
}

// apply returns the parameters with those of the body.
func (p *pushed) apply(to model.Params) (model.Params, error) {
	if len(p.Params) == 0 {
		return to, errors.New("no parameter is named")
	}
	left := maps.Clone(p.Params)
	for _, spec := range model.ParamSpecs() {
		v, ok := left[spec.Name]
		if !ok {
			continue
		}
		delete(left, spec.Name)
		if err := spec.Set(&to, v); err != nil {
			return to, err
		}
	}
	if len(left) > 0 {
		return to, fmt.Errorf("there is no parameter %q", slices.Sorted(maps.Keys(left))[0])
	}
	return to, nil
}

// pushConfig puts a configuration in force.
func (h *handler) pushConfig(w http.ResponseWriter, r *http.Request) {
	data, ok := body(w, r)
	if !ok {
		return
	}
	f, err := events.Decode(data)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	c, ok := f.(*model.Config)
	if !ok {
		refuse(w, http.StatusBadRequest, "the body is no configuration but a fact of kind "+f.Kind().String())
		return
	}
	if err := c.Check(); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	v, err := h.Controller.View(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	if v.Fleet != "" && c.Fleet != v.Fleet {
		refuse(w, http.StatusConflict, fmt.Sprintf("the configuration is of fleet %q, this is %q", c.Fleet, v.Fleet))
		return
	}
	c.By, c.Why = cut(c.By), cut(c.Why)
	h.put(w, r, c, c.By, "config")
}

// put appends a fact and answers when it is folded.
func (h *handler) put(w http.ResponseWriter, r *http.Request, f model.Fact, by, what string) {
	seq, err := h.Controller.Append(r.Context(), f)
	if err == nil {
		h.Logger.Info("order taken", slog.Uint64("seq", seq), slog.String("what", what), slog.String("by", by))
		err = h.Controller.Wait(r.Context(), seq)
	}
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, accepted{Seq: seq})
}

// body reads a body whole, and answers when it cannot be had.
func body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	data, err := io.ReadAll(r.Body)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		refuse(w, http.StatusRequestEntityTooLarge, "the body is too large")
		return nil, false
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body broke off")
		return nil, false
	}
	return data, true
}

// decode reads a JSON body, strictly, and answers when it is none.
func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "the body must be application/json")
		return false
	}
	data, ok := body(w, r)
	if !ok {
		return false
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not as expected: "+err.Error())
		return false
	}
	if dec.More() {
		refuse(w, http.StatusBadRequest, "the body holds more than one object")
		return false
	}
	return true
}
