package strict

import "github.com/goccy/go-yaml/ast"

// Bounds of a route.
const (
	// MaxTiers is how many tiers a route may have: an agent keeps a set of
	// them in 32 bits.
	MaxTiers = 32
	// MaxWeight is the largest weight in a tier, LeastWeight the smallest.
	MaxWeight   = 1000 * PPM
	LeastWeight = PPM / 100
)

// Tier is one step of a route, as weir.yaml and incident files both write it:
// a weighted set of channels, or a fixed answer.
type Tier struct {
	Channels []Weighted
	// Capability is a word such as "light" for a lesser model; may be empty.
	Capability string
	// Rule is the text answered when no channel is asked; set exactly when
	// Channels is empty.
	Rule string
}

// Weighted is a channel in a tier.
type Weighted struct {
	Channel string
	Weight  int64 // ppm, default PPM, from LeastWeight to MaxWeight
}

// Tiers reads the tiers of a route, which must have some.
func (f *Fields) Tiers(key string) []Tier {
	var tiers []Tier
	f.Need(key)
	f.List(key, func(n ast.Node, path string) { tiers = append(tiers, f.r.tier(n, path)) })
	if size := len(tiers); f.Has(key) && (size == 0 || size > MaxTiers) {
		f.r.Fault(f.Key(key), "%s: must have 1 to %d tiers, has %d", f.Sub(key), MaxTiers, size)
	}
	return tiers
}

// tier reads the short form, a list of channels, or the full one.
func (r *Reader) tier(n ast.Node, path string) (t Tier) {
	weighted := func(n ast.Node, path string) { t.Channels = append(t.Channels, r.weighted(n, path)) }
	if _, short := n.(*ast.SequenceNode); short {
		r.Sequence(n, path, weighted)
	} else if f := r.Mapping(n, path); f != nil {
		f.List("channels", weighted)
		f.Text("capability", &t.Capability)
		f.Text("rule", &t.Rule)
		f.Done()
	} else {
		return t
	}
	if (len(t.Channels) == 0) == (t.Rule == "") {
		r.Fault(n, "%s: needs either channels or a rule", path)
	}
	return t
}

// weighted reads a channel of a tier: its name, or a mapping with a weight.
func (r *Reader) weighted(n ast.Node, path string) Weighted {
	w := Weighted{Weight: PPM}
	if _, short := n.(*ast.StringNode); short {
		w.Channel = r.Name(n, path)
		return w
	}
	f := r.Mapping(n, path)
	if f == nil {
		return w
	}
	f.Need("channel")
	f.Name("channel", &w.Channel)
	f.Ratio("weight", &w.Weight, LeastWeight, MaxWeight)
	f.Done()
	return w
}

// ReferTiers reports channels in the tiers of a route that are not among known.
// It reads the tree again and finds no other fault.
func (r *Reader) ReferTiers(route *Fields, key string, known map[string]bool) {
	quiet := new(Reader)
	visit := func(n ast.Node, path string) {
		if _, short := n.(*ast.StringNode); short {
			r.Known(n, "channel", known)
		} else if w := quiet.Mapping(n, path); w != nil {
			r.Refer(w, "channel", "channel", known)
		}
	}
	route.List(key, func(n ast.Node, _ string) {
		if _, short := n.(*ast.SequenceNode); short {
			quiet.Sequence(n, "", visit)
		} else if t := quiet.Mapping(n, ""); t != nil {
			t.List("channels", visit)
		}
	})
}
