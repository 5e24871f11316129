package config

import (
	"fmt"
	"io"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/model"
	"weir/sim/strict"
)

// Params is a file of parameters. Those it does not name stay as they are.
type Params struct {
	// Name, By and Why are for people.
	Name, By, Why string
	// Values are the parameters by name, in their own units.
	Values map[string]int64
}

// ParseParams reads a file of parameters: YAML, or what `weir params show`
// printed. A parameter in nanoseconds may be written as a duration.
//
//	name: calmer
//	why: tuned on last week's journal
//	params: {plateau: 12s, cut_share: 800000}
//
// The error is a *strict.ParseError with every fault, or what reading gave.
func ParseParams(name string, in io.Reader) (*Params, error) {
	r, body, err := strict.Document(name, in)
	if err != nil {
		return nil, err
	}
	p := &Params{Values: map[string]int64{}}
	if f := r.Mapping(body, ""); f != nil {
		f.Text("name", &p.Name)
		f.Text("by", &p.By)
		f.Text("why", &p.Why)
		f.Get("seq") // what params show prints beside
		f.Get("hash")
		f.Get("watched")
		f.Need("params")
		if c := f.Child("params"); c != nil {
			p.read(r, c)
		}
		f.Done()
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Params) read(r *strict.Reader, f *strict.Fields) {
	specs := map[string]model.ParamSpec{}
	for _, spec := range model.ParamSpecs() {
		specs[spec.Name] = spec
	}
	for _, key := range f.Keys() {
		if spec, ok := specs[key]; ok {
			p.param(r, f.Get(key), f.Sub(key), spec)
		} else {
			r.Fault(f.Key(key), "%s: there is no such parameter; weir params show --default lists them", f.Sub(key))
		}
	}
}

func (p *Params) param(r *strict.Reader, n ast.Node, path string, spec model.ParamSpec) {
	if _, text := n.(*ast.StringNode); text && spec.Unit == "ns" {
		if d, ok := r.Span(n, path, time.Duration(spec.Min)); ok {
			if int64(d) > spec.Max {
				r.Fault(n, "%s: must be at most %v, got %v", path, time.Duration(spec.Max), d)
			}
			p.Values[spec.Name] = int64(d)
		}
		return
	}
	if v, ok := r.Count(n, path, spec.Min, spec.Max); ok {
		p.Values[spec.Name] = v
	}
}

// Apply returns base with the file's parameters.
func (p *Params) Apply(base model.Params) (model.Params, error) {
	for _, spec := range model.ParamSpecs() {
		if v, ok := p.Values[spec.Name]; ok {
			if err := spec.Set(&base, v); err != nil {
				return base, fmt.Errorf("apply parameters: %w", err)
			}
		}
	}
	return base, nil
}
