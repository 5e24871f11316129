// Package provider is a model service: hidden limits, a queue, work that slows
// with load, refusals in the words of real APIs, and a script that moves all of
// it over time.
//
// A Provider is a pure state machine. Every method takes now in nanoseconds
// since the start of the incident; there is no clock, goroutine or lock, and
// random draws are keyed by seed, request and try, so that the same calls at
// the same instants always meet the same fate. Time that goes backwards counts
// as standing still. Advance(a) followed by Advance(b) is Advance(b).
//
// # Work
//
// A call's nominal work is base + input/prefill + output/pace, times a
// log-normal factor of mean 1, fixed when it starts. All running calls progress
// at the same pace, 1/slowdown of the load of the moment: the more run, the
// slower each. That is processor sharing, kept as one virtual clock that runs
// at 1/slowdown: a call that starts at virtual time v with work w ends at v+w
// whatever happens meanwhile, so a start or an end costs O(log n) and no other
// call is touched.
//
// The slowdown is 1 up to the share `from` of the concurrency cap, then
// 1 + (factor-1)*x*x with x = (u-from)/(1-from), where u is the share of the
// cap taken by own and other tenants' calls, at most 1.
//
// # Admission
//
// In this order: a ban; the limits per minute and per day, all or nothing; a
// free slot, else a place in the queue. A call that finds no place is not
// charged to the limits, unless the refusal is `charged`; then every refused
// call is charged, and a bucket can go into debt down to minus its depth. A
// call is charged when it is accepted, for what it will really use, or for its
// max_tokens if the limit says so; giving up returns nothing. Where saying no
// costs capacity, each refusal but those of a ban takes one of the slots for its
// delay, free or not. A cap that
// shrinks below what runs ends no call; it only lets none start.
//
// # What is seen and what is true
//
// Offer and Advance return what a client of the real service would see. What
// the service really is and did (its law, its books, what an omniscient
// scheduler could have served) is behind Truth, which New hands out apart.
package provider
