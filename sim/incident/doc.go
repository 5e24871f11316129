// Package incident describes simulated worlds: a fleet, what it wants to send,
// the providers it sends to, and what goes wrong with them and when.
//
// An incident is read from a strict YAML file. Unknown keys, numbers out of
// range, names used twice and names that point nowhere are all reported at
// once, each with file, line and column. What is parsed is plain data with
// integers only (nanoseconds, tokens, parts per million), so that whatever is
// computed from it gives the same result on every machine. The package reads
// no clock and opens no file but those built into the binary. Write is Parse the
// other way round.
//
// # What files may say
//
// The example below has the keys that few incidents need; the built-in files
// show the rest.
//
//	fleet:
//	  agents: 64
//	  also: [8, 256]        # NAME-8 and NAME-256 are built in as well
//	  changes:
//	    # an operator stops the applications; they come back over a quarter of an
//	    # hour, and what waited in them is given up
//	    - {at: 26m, for: 3m, kind: pause, over: 15m, drop: true}
//	providers:
//	  - name: main
//	    rpm: {limit: 14, window: fixed, per: 2s}               # in two seconds
//	    refusal: {delay: 400ms, holds_slot: true}              # takes a slot
//	    refusals: {day: {status: 402, code: insufficient_quota}}  # for one reason
//	    ban: {refusals: 5, in: 10s, for: 5s, widen: 2, most: 10m, forget: 2m}
//	    tokens_per_day: {limit: 5000000, used: 4000000}
//	    day_elapsed: 23h45m                                    # of the provider's day
//	workload:
//	  - name: tasks
//	    agents: [0, 1]      # beside these agents only
//	    arrivals: {kind: closed, users: 90, think: 5s, steps: 30, restarts: 2}
//	    client: {stream: true}  # agents see the first token before the end
//	  - name: wants
//	    # users are spread over the agents; then each agent's number walks
//	    arrivals:
//	      kind: closed
//	      users: 675
//	      walk: {swing: 0.1, every: 10s, jumps: [{at: 3m, agent: 7, by: 100}]}
package incident
