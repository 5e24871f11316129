package dialect

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxMadeBy is how far into an answer its model is looked for, in bytes.
const maxMadeBy = 16 << 10

// MadeBy returns the model that an answer, or the data of an event of one, says
// it was made by; empty where its beginning says none. The text may be cut.
func MadeBy(text []byte) string {
	dec := json.NewDecoder(bytes.NewReader(text[:min(len(text), maxMadeBy)]))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return ""
		}
		value, err := dec.Token()
		if err != nil {
			return ""
		}
		switch name, isText := value.(string); {
		case key == "model" && isText:
			return modelName(name)
		case value == json.Delim('{') && (key == "message" || key == "response"):
			// Events of messages and responses have their answer in there.
		default:
			if !pass(dec, value) {
				return ""
			}
		}
	}
	return ""
}

// pass reads the rest of a value that begins with token t; it reports false
// when its end is not there.
func pass(dec *json.Decoder, t json.Token) bool {
	for depth := 0; ; {
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return true
		}
		var err error
		if t, err = dec.Token(); err != nil {
			return false
		}
	}
}

// modelName returns what looks like a model's name, and else nothing.
func modelName(s string) string {
	if len(s) > maxModel || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return ""
	}
	return s
}
