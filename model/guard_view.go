package model

// FleetGuard is how the watch of a push stands at a moment.
type FleetGuard struct {
	// Name, Hash, By and Why are the watched set's, Seq its record.
	Name string `json:"name"`
	Hash string `json:"hash"`
	By   string `json:"by"`
	Why  string `json:"why"`
	Seq  uint64 `json:"seq"`
	// Canary is the one channel that uses it, empty for all.
	Canary string `json:"canary,omitempty"`
	// Prior is the hash of what a rollback brings back.
	Prior string `json:"prior"`
	// For is how long it is watched, Left how much of it is to come.
	For  Nanos `json:"for_ns"`
	Left Nanos `json:"left_ns"`
	// Goodput and Waste are the changes so far, GoodputMin and WasteMax those
	// that are tolerated, the noises their standard errors. They mean nothing
	// while Enough is not set.
	Goodput      PPM  `json:"goodput_ppm"`
	GoodputNoise PPM  `json:"goodput_noise_ppm"`
	GoodputMin   PPM  `json:"goodput_min_ppm"`
	Waste        PPM  `json:"waste_ppm"`
	WasteNoise   PPM  `json:"waste_noise_ppm"`
	WasteMax     PPM  `json:"waste_max_ppm"`
	Enough       bool `json:"enough"`
	// Answers came where the demand would have had Expected.
	Answers  uint64 `json:"answers"`
	Expected uint64 `json:"expected"`
	// Params is the watched set.
	Params Params `json:"-"`
}

// guardView copies the watch for people; nil when nothing is watched.
func (f *Fleet) guardView() *FleetGuard {
	g := f.guard
	if g == nil {
		return nil
	}
	v := f.guardFigures()
	return &FleetGuard{
		Name: g.set.Name, Hash: g.hash, By: g.set.By, Why: g.set.Why, Seq: g.seq, Canary: g.set.Canary,
		Prior: g.prior.set.Params.Hash(), For: g.set.Guard.For, Left: max(g.ends-f.now, 0),
		Goodput: v.goodput, GoodputNoise: v.goodputNoise, GoodputMin: g.set.Guard.Goodput,
		Waste: v.waste, WasteNoise: v.wasteNoise, WasteMax: g.set.Guard.Waste,
		Enough: v.enough(), Answers: v.since.ok, Expected: v.expected, Params: g.set.Params,
	}
}
