package emulator

import (
	"encoding/json"
	"net/http"
	"strconv"

	"weir/sim/draw"
	"weir/sim/provider"
)

// messagesRequest is what the emulator reads of a request in Anthropic's API.
type messagesRequest struct {
	chatRequest
	System json.RawMessage `json:"system"`
}

// messages answers POST /v1/messages.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	var req messagesRequest
	if err := decode(w, r, &req); err != nil {
		badBody(w, err)
		return
	}
	switch {
	case len(req.Messages) == 0:
		clientFault(w, http.StatusBadRequest, "messages: at least one is required")
		return
	case req.MaxTokens == nil || *req.MaxTokens < 1:
		clientFault(w, http.StatusBadRequest, "max_tokens: Field required")
		return
	}
	if len(req.System) > 0 {
		req.Messages = append(req.Messages, message{Role: "system", Content: req.System})
	}
	spec := req.spec(r.Header, s.seed)
	c := s.begin(w, r, spec)
	if c == nil {
		return
	}
	id := draw.Seed(s.seed).Bits(draw.Identity, spec.Request, uint64(spec.Try))
	s.reply(w, r, c, &req.chatRequest, &messagesReply{spec: &spec, id: "msg_" + strconv.FormatUint(id, 36), model: req.Model})
}

// messagesReply builds the parts of one answer in Anthropic's API.
type messagesReply struct {
	spec      *provider.Call
	id, model string
}

// textMessage is a whole answer, or what opens a stream.
type textMessage struct {
	ID           string        `json:"id"`
	Type         string        `json:"type"`
	Role         string        `json:"role"`
	Model        string        `json:"model"`
	Content      []textBlock   `json:"content"`
	StopReason   *string       `json:"stop_reason"`
	StopSequence *string       `json:"stop_sequence"`
	Usage        messagesUsage `json:"usage"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type messagesUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// streamEvent is an event of a stream; what it does not use is left out.
type streamEvent struct {
	Type    string       `json:"type"`
	Index   *int         `json:"index,omitempty"`
	Message *textMessage `json:"message,omitempty"`
	Block   *textBlock   `json:"content_block,omitempty"`
	Delta   any          `json:"delta,omitempty"`
	Usage   any          `json:"usage,omitempty"`
}

func (e streamEvent) event() string { return e.Type }

func (a *messagesReply) message() textMessage {
	return textMessage{
		ID: a.id, Type: "message", Role: "assistant", Model: a.model, Content: []textBlock{},
		Usage: messagesUsage{Input: a.spec.Input},
	}
}

func (a *messagesReply) whole() any {
	m := a.message()
	m.Content = []textBlock{{"text", filler(0, a.spec.Output)}}
	m.StopReason, m.Usage.Output = a.reason(), a.spec.Output
	return m
}

func (a *messagesReply) reason() *string {
	reason := "end_turn"
	if a.spec.Output >= a.spec.MaxTokens {
		reason = "max_tokens"
	}
	return &reason
}

func (a *messagesReply) open() []any {
	m, first := a.message(), 0
	return []any{
		streamEvent{Type: "message_start", Message: &m},
		streamEvent{Type: "content_block_start", Index: &first, Block: &textBlock{Type: "text"}},
	}
}

func (a *messagesReply) part(from, to int64) any {
	first := 0
	return streamEvent{Type: "content_block_delta", Index: &first, Delta: textBlock{"text_delta", filler(from, to)}}
}

func (a *messagesReply) end() []any {
	type stop struct {
		Reason   *string `json:"stop_reason"`
		Sequence *string `json:"stop_sequence"`
	}
	type output struct {
		Output int64 `json:"output_tokens"`
	}
	first := 0
	return []any{
		streamEvent{Type: "content_block_stop", Index: &first},
		streamEvent{Type: "message_delta", Delta: stop{Reason: a.reason()}, Usage: output{a.spec.Output}},
		streamEvent{Type: "message_stop"},
	}
}

func (a *messagesReply) mark() string { return "" }

func (a *messagesReply) size() int64 { return a.spec.Output }
