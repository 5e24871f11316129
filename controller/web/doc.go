// Package web serves a controller over HTTP: metrics, probes, and the API that
// shows the fleet and takes an operator's orders.
//
// Reads are open to this machine; from elsewhere, which a proxy that says for
// whom it asks is, and for everything that changes state, a request carries the
// bearer token. Without a configured
// token nothing can be changed and nothing is shown to other machines. A
// request whose Host is a foreign name is refused, so that a web page cannot
// reach the API through a name of its own. Bodies, headers and times are
// bounded.
//
//	GET  /healthz                 the loop turns
//	GET  /readyz                  it has caught up with the log, and somebody leads
//	GET  /metrics                 Prometheus text
//	GET  /api/v1/status           the controller and what the fold counted
//	GET  /api/v1/channels[/NAME]  channels, budget pools, and the days of channels, groups and tenants
//	GET  /api/v1/agents           agents
//	GET  /api/v1/decisions        ?channel= agent= rule= from= to= limit= oldest=1
//	GET  /api/v1/at               ?time= the fleet as it was then, and what was decided before
//	GET  /api/v1/params           the parameters in force, and those that are watched
//	GET  /api/v1/snapshot         the whole state in its canonical encoding, for a backup
//	POST /api/v1/commands         {"command","channel","agent","value","mode","for","by","why"}
//	POST /api/v1/params           {"name","by","why","params":{NAME:NUMBER},"canary","guard":{"for_ns","goodput_ppm","waste_ppm"}}
//	POST /api/v1/config           an encoded configuration, as events.Encode writes it
//
// A POST answers with the sequence of its record once it is folded. Errors are
// {"error": "..."} with one sentence.
package web
