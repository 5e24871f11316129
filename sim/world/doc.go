// Package world lives one incident through in virtual time: clients with
// their pools, timeouts and own retries; agents; the bus; the controller;
// providers with hidden limits. The agents' gates and the controller's fold
// are those of package model, as they ship.
//
// A run is one goroutine's and deterministic: events are ordered by (time,
// number of the event), random draws are keyed by what they are for, and the
// digest of the event stream is part of the result. A policy sees what a real
// client would see; the providers' truth stays with the world, which keeps the
// books. A run whose counts do not add up, with themselves or with the
// providers' books, is an error.
//
// One policy is the judge: the oracle knows the providers and what the script
// does to them next, but no answer's length. What others complete is measured
// by what it completes of the same demand.
package world
