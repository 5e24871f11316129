package dialect

import (
	"path"
	"strings"
)

// Dialect is the API a path belongs to. It decides the shape of errors, of
// fixed answers and of usage in streams.
type Dialect uint8

// The dialects.
const (
	Other       Dialect = iota // any other path under /v1
	Chat                       // /v1/chat/completions
	Completions                // /v1/completions
	Embeddings                 // /v1/embeddings
	Responses                  // /v1/responses
	Messages                   // /v1/messages and below
)

// Of returns the dialect of a request path. ok is false for a path that is
// not a clean one under /v1/: it must not reach a provider.
func Of(p string) (d Dialect, ok bool) {
	rest, ok := strings.CutPrefix(p, "/v1/")
	if !ok || rest == "" || path.Clean(p) != p || strings.ContainsAny(rest, "\\%?#;") {
		return Other, false
	}
	switch rest {
	case "chat/completions":
		return Chat, true
	case "completions":
		return Completions, true
	case "embeddings":
		return Embeddings, true
	case "responses":
		return Responses, true
	case "messages":
		return Messages, true
	}
	if strings.HasPrefix(rest, "messages/") {
		return Messages, true
	}
	return Other, true
}

// generates reports whether the answer holds generated tokens, so that a
// request without a bound costs the expected output.
func (d Dialect) generates() bool { return d != Embeddings }

// usageOnRequest reports whether a stream tells its usage only when asked to.
func (d Dialect) usageOnRequest() bool { return d == Chat || d == Completions }
