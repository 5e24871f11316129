// Package proxy serves an agent's transport to other processes: a reverse
// proxy that speaks the OpenAI and Anthropic APIs, so that a client changes its
// base URL and nothing else.
//
// It is no open proxy: a call goes where its route's channels say, with their
// keys, and nowhere else. A client's own credential ends here. Where keys are
// set, a client needs one, and it decides tenant and highest priority. Where
// none are set the listener must be on loopback, and a request that a web
// page's script could have sent is refused.
package proxy
