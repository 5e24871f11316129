package dialect

import (
	"fmt"
	"strings"
)

// object is a JSON object; its members are written in the order of their names.
type object = map[string]any

// Answer returns a fixed text as an answer of the dialect, whole or as a
// stream; ok is false for a dialect that has no such answers.
func Answer(d Dialect, stream bool, id, name, text string) (body []byte, ok bool) {
	switch d {
	case Chat:
		return chatAnswer(stream, id, name, text), true
	case Messages:
		return messagesAnswer(stream, id, name, text), true
	case Other, Completions, Embeddings, Responses:
	}
	return nil, false
}

func chatAnswer(stream bool, id, name, text string) []byte {
	head := object{"id": "chatcmpl-" + id, "created": 0, "model": name}
	message := object{"role": "assistant", "content": text}
	if !stream {
		head["object"] = "chat.completion"
		head["choices"] = []object{{"index": 0, "message": message, "finish_reason": "stop"}}
		head["usage"] = object{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
		return marshal(head)
	}
	head["object"] = "chat.completion.chunk"
	head["choices"] = []object{{"index": 0, "delta": message, "finish_reason": nil}}
	first := marshal(head)
	head["choices"] = []object{{"index": 0, "delta": object{}, "finish_reason": "stop"}}
	return fmt.Appendf(nil, "data: %s\n\ndata: %s\n\ndata: [DONE]\n\n", first, marshal(head))
}

func messagesAnswer(stream bool, id, name, text string) []byte {
	message := object{
		"id": "msg_" + id, "type": "message", "role": "assistant", "model": name,
		"content":     []object{{"type": "text", "text": text}},
		"stop_reason": "end_turn", "stop_sequence": nil,
		"usage": object{"input_tokens": 0, "output_tokens": 0},
	}
	if !stream {
		return marshal(message)
	}
	message["content"], message["stop_reason"] = []object{}, nil
	var b strings.Builder
	event := func(name string, data object) {
		data["type"] = name
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, marshal(data))
	}
	event("message_start", object{"message": message})
	event("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
	event("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": text}})
	event("content_block_stop", object{"index": 0})
	event("message_delta", object{"delta": object{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": object{"output_tokens": 0}})
	event("message_stop", object{})
	return []byte(b.String())
}
