package emulator

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"weir/sim/draw"
	"weir/sim/provider"
)

type embeddingList struct {
	Object string      `json:"object"`
	Data   []embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  usage       `json:"usage"`
}

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or base64 of its bytes
}

const (
	defaultDimensions = 16
	maxDimensions     = 4096
	maxInputs         = 2048
)

// embeddings answers POST /v1/embeddings: a call without output tokens.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var req embeddingsRequest
	if err := decode(w, r, &req); err != nil {
		badBody(w, err)
		return
	}
	inputs := split(req.Input)
	if len(inputs) == 0 || len(inputs) > maxInputs {
		clientFault(w, http.StatusBadRequest, "input: a text, a list of tokens, or a list of up to 2048 of them is required")
		return
	}
	dimensions := defaultDimensions
	if req.Dimensions != nil {
		dimensions = *req.Dimensions
	}
	if dimensions < 1 || dimensions > maxDimensions {
		clientFault(w, http.StatusBadRequest, "dimensions: must be from 1 to 4096")
		return
	}
	spec := identity(r.Header)
	for _, in := range inputs {
		spec.Input += estimate(in)
	}
	spec.Input = headerNumber(r.Header, "X-Emulator-Input-Tokens", spec.Input)
	c := s.begin(w, r, spec)
	if c == nil || !s.wait(w, r, c, provider.Done) {
		return
	}
	list := embeddingList{Object: "list", Model: req.Model, Usage: usage{spec.Input, 0, spec.Input}}
	for i, in := range inputs {
		list.Data = append(list.Data, embedding{"embedding", i, vector(in, dimensions, req.EncodingFormat)})
	}
	writeJSON(w, http.StatusOK, list)
}

// split returns the inputs of an embeddings request: a text or a list of token
// ids is one, a list of texts or of lists is several.
func split(raw json.RawMessage) []json.RawMessage {
	var many []json.RawMessage
	if json.Unmarshal(raw, &many) != nil {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil
		}
		return []json.RawMessage{raw}
	}
	if len(many) > 0 && (many[0][0] == '"' || many[0][0] == '[') {
		return many
	}
	if len(many) == 0 {
		return nil
	}
	return []json.RawMessage{raw}
}

// vector is a unit vector that depends on the input alone.
func vector(in json.RawMessage, dimensions int, format string) any {
	v := make([]float32, dimensions)
	name, square := draw.Name(string(in)), 0.0
	for i := range v {
		x := float64(draw.Seed(0).Below(2001, draw.Identity, name, uint64(i))-1000) + 0.5
		v[i] = float32(x)
		square += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(square))
	}
	if format != "base64" {
		return v
	}
	raw := make([]byte, 0, 4*dimensions)
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
