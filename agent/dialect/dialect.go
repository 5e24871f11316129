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
	Other       Dialect = iota // any other path under /v1: files, batches, ...
	Chat                       // /v1/chat/completions
	Completions                // /v1/completions
	Embeddings                 // /v1/embeddings
	Responses                  // /v1/responses
	Messages                   // /v1/messages
	Media                      // pictures, sound, and what else is computed without text coming out
	Count                      // /v1/messages/count_tokens
	Batches                    // any other path below /v1/messages
)

// Of returns the dialect of a request path. ok is false for a path that must
// not reach a provider: one that is not a clean one under /v1/, and those that
// administer an account.
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
	case "messages/count_tokens":
		return Count, true
	case "moderations", "rerank":
		return Media, true
	}
	switch first, _, _ := strings.Cut(rest, "/"); first {
	case "messages":
		return Batches, true
	case "images", "audio":
		return Media, true
	case "organization", "organizations":
		return Other, false
	}
	return Other, true
}

// Kept reports whether calls may make, read or change what stays at the
// account, such as a file: repeating one may make two, another channel knows
// nothing of it, and a model need not be named.
func (d Dialect) Kept() bool { return d == Other || d == Batches }

// Anthropic reports whether the dialect is that of Anthropic's API.
func (d Dialect) Anthropic() bool { return d == Messages || d == Count || d == Batches }

// NamesModel reports whether a request must name its model.
func (d Dialect) NamesModel() bool { return !d.Kept() && d != Media }

// generates reports whether the answer holds generated tokens, so that a
// request without a bound costs the expected output.
func (d Dialect) generates() bool {
	switch d {
	case Embeddings, Media, Count, Batches:
		return false
	case Other, Chat, Completions, Responses, Messages:
	}
	return true
}

// Operation is what the API does, in the words of the GenAI conventions where
// they have one.
func (d Dialect) Operation() string {
	switch d {
	case Chat, Responses, Messages:
		return "chat"
	case Completions:
		return "text_completion"
	case Embeddings:
		return "embeddings"
	case Media:
		return "generate_content"
	case Count:
		return "count_tokens"
	case Batches:
		return "batches"
	case Other:
	}
	return "other"
}

// usageOnRequest reports whether a stream tells its usage only when asked to.
func (d Dialect) usageOnRequest() bool { return d == Chat || d == Completions }
