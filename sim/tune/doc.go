// Package tune searches for parameters of the laws that do better than those
// in force, over incidents lived through in virtual time, and says whether
// what it found is worth a change. It tunes exactly what ships: the space is
// model.ParamSpecs, a trial is a run of package world.
//
// A study has three parts with disjoint seeds. The search tries parameters on
// pairs of incident and seed, the same for all, and drops a trial as soon as it
// is surely no better than the best so far. The selection takes the best few to
// new seeds, reverts what earns nothing and prefers what stays good when it is
// off by a tenth. The verdict measures the one that is left against the
// parameters in force, on seeds that nothing was chosen by, once.
//
// The package starts no goroutine and reads no clock: who calls Run evaluates
// the jobs it is handed, in any number of workers, and hands the outcomes back
// in the order of the jobs. A study is then a function of its configuration.
// The journal holds what was asked and what came of it in that order; a study
// that was ended at any instant goes on from it with the same trials. This
// holds on one kind of processor: others round sums of products differently,
// which the journal finds.
package tune
