package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
)

// maxQuestion is the longest text, in bytes, that is compared by its meaning:
// embeddings of longer ones say less and cost more.
const maxQuestion = 8 << 10

// Question takes a request apart for a comparison by meaning: the text that is
// asked last, and a hash of everything else that decides the answer, the path
// not included. Numbers in the text count to the rest: they change an answer
// and hardly a meaning. ok is false where the last of the conversation is not
// one plain text of the user's.
func (b *Body) Question(d Dialect) (text string, rest [32]byte, ok bool) {
	field := ""
	switch d {
	case Chat, Messages:
		field = "messages"
	case Responses:
		field = "input"
	case Completions:
		field = "prompt"
	case Other, Embeddings, Media, Count, Batches:
		return "", rest, false
	}
	var all map[string]json.RawMessage
	if len(b.raw) > maxNormal { // a list of nothings takes forty times its room
		return "", rest, false
	}
	if json.Unmarshal(b.raw, &all) != nil {
		return "", rest, false
	}
	text, others, ok := question(all[field])
	if !ok || text == "" || len(text) > maxQuestion {
		return "", rest, false
	}
	all[field] = others
	sum := sha256.New()
	sum.Write(marshal(all)) // a hash never fails
	for _, number := range numbers(text) {
		sum.Write([]byte{0})
		sum.Write([]byte(number))
	}
	return text, [32]byte(sum.Sum(nil)), true
}

// question finds the last text of a conversation, or the only text, and what
// is left of it without.
func question(raw json.RawMessage) (text string, others json.RawMessage, ok bool) {
	if json.Unmarshal(raw, &text) == nil {
		return text, json.RawMessage(`""`), len(bytes.TrimSpace(raw)) > 0 && bytes.TrimSpace(raw)[0] == '"'
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return "", nil, false
	}
	var last map[string]json.RawMessage
	var role string
	if json.Unmarshal(list[len(list)-1], &last) != nil || json.Unmarshal(last["role"], &role) != nil || role != "user" {
		return "", nil, false
	}
	if text, ok = plainText(last["content"]); !ok {
		return "", nil, false
	}
	delete(last, "content")
	list[len(list)-1] = marshal(last)
	return text, marshal(list), true
}

// plainText reads a message's content that is a string or one part of text.
func plainText(raw json.RawMessage) (text string, ok bool) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, len(raw) > 0 && raw[0] == '"'
	}
	if json.Unmarshal(raw, &parts) != nil || len(parts) != 1 || parts[0].Type != "text" && parts[0].Type != "input_text" {
		return "", false
	}
	return parts[0].Text, true
}

// numbers returns the runs of digits in a text.
func numbers(text string) []string {
	var list []string
	for i := 0; i < len(text); i++ {
		from := i
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
		}
		if i > from {
			list = append(list, text[from:i])
		}
	}
	return list
}
