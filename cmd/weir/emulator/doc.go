// Package emulator is the provider model of an incident as a live,
// OpenAI-compatible HTTP server: the same hidden limits, queue, slowdown,
// refusals and script as in the simulator, played on the wall clock.
//
// It answers POST /v1/chat/completions and POST /v1/messages (whole and
// streamed), POST /v1/embeddings and GET /v1/models. The answer is filler text of the right
// length at the right time; prompts are measured and forgotten. A client that
// disconnects has given up, which the model hears at once.
//
// So that a load generator need not send long texts, a call may state its
// sizes in the headers X-Emulator-Input-Tokens and X-Emulator-Output-Tokens,
// and who it is in X-Emulator-Request (the same text for every try of one
// request) and X-Emulator-Try (from 1). Without them input is estimated from
// the prompt's length, output from max_tokens, and every call is a request of
// its own.
//
// GET /emulator/books shows what no real provider shows: the books, with the
// true reasons of refusals, and the law of the moment. POST /emulator/reset
// starts the script again. Neither asks who is calling, so keep the server on
// the loopback interface.
//
// One mutex guards the model; one goroutine sleeps until the model's next
// deadline and hands out what happened. Each call waits in its handler's own
// goroutine. Close ends them.
package emulator
