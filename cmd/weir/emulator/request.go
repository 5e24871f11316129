package emulator

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	"weir/sim/draw"
	"weir/sim/provider"
)

// maxBody bounds a request's body.
const maxBody = 16 << 20

// errBody is a body that is no request; its text is for the client.
var errBody = errors.New("the body is not a JSON object of the expected form")

// chatRequest is what the emulator reads of a chat request.
type chatRequest struct {
	Model               string    `json:"model"`
	Messages            []message `json:"messages"`
	Stream              bool      `json:"stream"`
	MaxTokens           *int64    `json:"max_tokens"`
	MaxCompletionTokens *int64    `json:"max_completion_tokens"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// embeddingsRequest is what the emulator reads of an embeddings request.
type embeddingsRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	Dimensions     *int            `json:"dimensions"`
	EncodingFormat string          `json:"encoding_format"`
}

// decode reads a JSON body.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return err
	}
	if json.Unmarshal(body, into) != nil {
		return errBody
	}
	return nil
}

// spec turns a chat request into a call of the model.
func (c *chatRequest) spec(h http.Header, seed uint64) provider.Call {
	spec := identity(h)
	for _, m := range c.Messages {
		spec.Input += 4 + estimate(m.Content) // a message costs a few tokens of framing
	}
	spec.Input = headerNumber(h, "X-Emulator-Input-Tokens", spec.Input)
	for _, limit := range []*int64{c.MaxTokens, c.MaxCompletionTokens} {
		if limit != nil && *limit > 0 {
			spec.MaxTokens = *limit
		}
	}
	drawn := defaultOutput/2 + draw.Seed(seed).Below(defaultOutput/2, draw.OutputSize, spec.Request, 0)
	spec.Output = headerNumber(h, "X-Emulator-Output-Tokens", drawn)
	if spec.MaxTokens > 0 {
		spec.Output = min(spec.Output, spec.MaxTokens)
	}
	return spec
}

// Bounds of sizes, in tokens: the longest answer when the call does not state
// its length, and the most that a call can state.
const (
	defaultOutput = 256
	maxStated     = 1_000_000
)

// identity reads who a call says it is. Without a request name it is 0, and
// offer makes the call a request of its own.
func identity(h http.Header) provider.Call {
	c := provider.Call{Try: 1}
	if name := h.Get("X-Emulator-Request"); name != "" {
		c.Request = RequestKey(name)
		c.Try = uint32(headerNumber(h, "X-Emulator-Try", 1))
	}
	return c
}

// RequestKey is what a named request is drawn luck by: its own number when the
// name is one, so that a live run and a simulated one of the same workload have
// the same.
func RequestKey(name string) uint64 {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil {
		return max(1, n)
	}
	return max(1, draw.Name(name))
}

// headerNumber reads a number that is not negative, at most maxStated, or gives
// the default.
func headerNumber(h http.Header, name string, otherwise int64) int64 {
	v, err := strconv.ParseInt(h.Get(name), 10, 64)
	if err != nil || v < 0 {
		return otherwise
	}
	return min(v, maxStated)
}

// estimate guesses the tokens of a prompt: one for four characters of each
// text in it, one for each number (a token id).
func estimate(raw json.RawMessage) int64 {
	if len(raw) == 0 {
		return 0
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return 0
	}
	return estimateValue(v)
}

func estimateValue(v any) int64 {
	switch v := v.(type) {
	case string:
		return (int64(utf8.RuneCountInString(v)) + 3) / 4
	case float64:
		return 1
	case []any:
		sum := int64(0)
		for _, x := range v {
			sum += estimateValue(x)
		}
		return sum
	case map[string]any:
		return estimateValue(v["text"])
	}
	return 0
}
