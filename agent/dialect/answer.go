package dialect

import (
	"fmt"
	"strings"
)

// object is a JSON object; its members are written in the order of their names.
type object = map[string]any

// Answer returns a fixed text as an answer of the dialect, whole or as a
// stream; ok is false for a dialect that has no such answers. Its member weir
// marks it as what it is.
func Answer(d Dialect, stream bool, id, name, text string) (body []byte, ok bool) {
	switch d {
	case Chat:
		return chatAnswer(stream, id, name, text), true
	case Completions:
		return completionsAnswer(stream, id, name, text), true
	case Responses:
		return responsesAnswer(stream, id, name, text), true
	case Messages:
		return messagesAnswer(stream, id, name, text), true
	case Other, Embeddings, Media, Count, Batches:
	}
	return nil, false
}

// mark says in an answer that no model made it.
func mark() object { return object{"degraded": true, "fixed": true} }

func chatAnswer(stream bool, id, name, text string) []byte {
	head := object{"id": "chatcmpl-" + id, "created": 0, "model": name, "weir": mark()}
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

func completionsAnswer(stream bool, id, name, text string) []byte {
	head := object{
		"id": "cmpl-" + id, "object": "text_completion", "created": 0, "model": name, "weir": mark(),
		"choices": []object{{"index": 0, "text": text, "finish_reason": "stop", "logprobs": nil}},
	}
	if stream {
		return fmt.Appendf(nil, "data: %s\n\ndata: [DONE]\n\n", marshal(head))
	}
	head["usage"] = object{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
	return marshal(head)
}

func responsesAnswer(stream bool, id, name, text string) []byte {
	part := func(text string) object {
		return object{"type": "output_text", "text": text, "annotations": []object{}}
	}
	item := func(status string, content ...object) object {
		return object{"id": "msg_" + id, "type": "message", "role": "assistant", "status": status, "content": list(content)}
	}
	response := func(status string, output ...object) object {
		return object{
			"id": "resp_" + id, "object": "response", "created_at": 0, "model": name, "status": status, "error": nil,
			"incomplete_details": nil, "instructions": nil, "metadata": object{}, "parallel_tool_calls": true, "tool_choice": "auto",
			"tools": []object{}, "output": list(output), "weir": mark(),
			"usage": object{
				"input_tokens": 0, "output_tokens": 0, "total_tokens": 0,
				"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0},
			},
		}
	}
	whole := response("completed", item("completed", part(text)))
	if !stream {
		return marshal(whole)
	}
	var s events
	at := func(more object) object {
		more["item_id"], more["output_index"], more["content_index"] = "msg_"+id, 0, 0
		return more
	}
	s.add("response.created", object{"response": response("in_progress")})
	s.add("response.output_item.added", object{"output_index": 0, "item": item("in_progress")})
	s.add("response.content_part.added", at(object{"part": part("")}))
	s.add("response.output_text.delta", at(object{"delta": text, "logprobs": []object{}}))
	s.add("response.output_text.done", at(object{"text": text, "logprobs": []object{}}))
	s.add("response.content_part.done", at(object{"part": part(text)}))
	s.add("response.output_item.done", object{"output_index": 0, "item": item("completed", part(text))})
	s.add("response.completed", object{"response": whole})
	return []byte(s.text.String())
}

// list is a list that is written as one when it is empty, too.
func list(all []object) []object {
	if all == nil {
		return []object{}
	}
	return all
}

// events writes named events.
type events struct {
	text strings.Builder
	n    int
}

func (s *events) add(name string, data object) {
	data["type"] = name
	if strings.HasPrefix(name, "response.") {
		data["sequence_number"] = s.n
	}
	s.n++
	fmt.Fprintf(&s.text, "event: %s\ndata: %s\n\n", name, marshal(data))
}

func messagesAnswer(stream bool, id, name, text string) []byte {
	message := object{
		"id": "msg_" + id, "type": "message", "role": "assistant", "model": name,
		"content":     []object{{"type": "text", "text": text}},
		"stop_reason": "end_turn", "stop_sequence": nil, "weir": mark(),
		"usage": object{"input_tokens": 0, "output_tokens": 0},
	}
	if !stream {
		return marshal(message)
	}
	message["content"], message["stop_reason"] = []object{}, nil
	var s events
	s.add("message_start", object{"message": message})
	s.add("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
	s.add("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": text}})
	s.add("content_block_stop", object{"index": 0})
	s.add("message_delta", object{"delta": object{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": object{"output_tokens": 0}})
	s.add("message_stop", object{})
	return []byte(s.text.String())
}
