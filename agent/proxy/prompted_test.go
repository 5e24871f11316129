package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// prompted is a provider of both APIs that does what the prompt says, so that
// one client can try everything. It counts its calls by prompt.
type prompted struct {
	t  *testing.T
	mu sync.Mutex
	n  map[string]int
	// left gets a prompt when the caller went before the answer's end.
	left chan string
}

func newPrompted(t *testing.T) *prompted {
	return &prompted{t: t, n: map[string]int{}, left: make(chan string, 16)}
}

// counts returns how often each prompt came.
func (p *prompted) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// call is what is read of a request.
type call struct {
	Stream   bool
	Input    json.RawMessage
	Messages []struct{ Content string }
}

// serve is a script of newWorld.
func (p *prompted) serve(_ int, w http.ResponseWriter, r *http.Request) {
	var c call
	body, err := io.ReadAll(r.Body)
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		err = json.Unmarshal(body, &c)
	}
	if err != nil {
		p.t.Errorf("the provider got %s: %v", body, err)
	}
	prompt := strings.Trim(string(c.Input), `"`)
	if len(c.Messages) > 0 {
		prompt = c.Messages[0].Content
	}
	name := prompt
	if c.Stream {
		name += " streamed"
	}
	p.mu.Lock()
	p.n[name]++
	p.mu.Unlock()
	anthropic := strings.HasPrefix(r.URL.Path, "/v1/messages")
	switch {
	case r.URL.Path == "/v1/files":
		say(w, 200, `{"id":"file-1","object":"file","bytes":5,"filename":"a.jsonl","purpose":"batch"}`)
	case r.URL.Path == "/v1/embeddings":
		say(w, 200, `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5,0.25,0.125]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`)
	case r.URL.Path == "/v1/messages/count_tokens":
		say(w, 200, `{"input_tokens":14}`)
	case p.refuse(w, prompt, anthropic):
	case prompt == "reset":
		reset(w)
	case prompt == "silent":
		<-r.Context().Done()
		p.left <- prompt
	case c.Stream:
		p.stream(w, r, prompt, shapeOf(r.URL.Path))
	default:
		say(w, 200, whole(shapeOf(r.URL.Path), prompt))
	}
}

// refuse answers with the refusal that a prompt names.
func (p *prompted) refuse(w http.ResponseWriter, prompt string, anthropic bool) bool {
	refusals := map[string]struct {
		status               int
		kind, code, anthKind string
	}{
		"rate":       {429, "requests", "rate_limit_exceeded", "rate_limit_error"},
		"quota":      {429, "insufficient_quota", "insufficient_quota", "billing_error"},
		"auth":       {401, "invalid_request_error", "invalid_api_key", "authentication_error"},
		"invalid":    {400, "invalid_request_error", "context_length_exceeded", "invalid_request_error"},
		"overloaded": {503, "server_error", "server_is_overloaded", "overloaded_error"},
	}
	f, ok := refusals[prompt]
	switch {
	case prompt == "hidden":
		say(w, 200, busyAnswer)
	case !ok:
		return false
	case anthropic:
		if prompt == "quota" {
			f.status = 402
		}
		if prompt == "overloaded" {
			f.status = 529
		}
		say(w, f.status, fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"provider says %s"},"request_id":"req_1"}`, f.anthKind, prompt))
	default:
		say(w, f.status, fmt.Sprintf(`{"error":{"message":"provider says %s","type":%q,"code":%q}}`, prompt, f.kind, f.code))
	}
	return true
}

// shape is what an answer looks like.
type shape struct {
	whole, tools             string
	start, delta, args, stop []string
	late                     string
}

func shapeOf(path string) shape {
	switch path {
	case "/v1/messages":
		return messagesShape()
	case "/v1/responses":
		return responsesShape()
	}
	return chatShape()
}

func whole(s shape, prompt string) string {
	if prompt == "tools" {
		return s.tools
	}
	return s.whole
}

func (p *prompted) stream(w http.ResponseWriter, r *http.Request, prompt string, s shape) {
	stream(w, s.start...)
	middle := s.delta
	if prompt == "tools" {
		middle = s.args
	}
	more(w, middle...)
	switch prompt {
	case "late error":
		pauseShort()
		more(w, s.late)
		return
	case "breaks":
		pauseShort()
		reset(w)
		return
	case "hangs":
		<-r.Context().Done()
		p.left <- prompt
		return
	}
	more(w, s.stop...)
}

func event(data string) string {
	var head struct{ Type string }
	_ = json.Unmarshal([]byte(data), &head) // it is written below
	return "event: " + head.Type + "\ndata: " + data + "\n\n"
}

func chatShape() shape {
	const call = `[{"index":0,"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]`
	frame := func(delta, finish string) string {
		return `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
	}
	return shape{
		whole: goodAnswer,
		tools: `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":` + call + `},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`,
		start: []string{frame(`{"role":"assistant","content":""}`, "null")},
		delta: []string{frame(`{"content":"h"}`, "null"), frame(`{"content":"i"}`, "null")},
		args:  []string{frame(`{"tool_calls":`+call+`}`, "null")},
		stop:  []string{frame(`{}`, `"stop"`), usageFrame, doneFrame},
		late:  busyFrame,
	}
}

func messagesShape() shape {
	message := func(content string) string {
		return `{"id":"m","type":"message","role":"assistant","model":"m","content":[` + content + `],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":3}}`
	}
	block := func(content, delta string) []string {
		return []string{
			event(`{"type":"content_block_start","index":0,"content_block":` + content + `}`),
			event(`{"type":"content_block_delta","index":0,"delta":` + delta + `}`),
			event(`{"type":"content_block_stop","index":0}`),
		}
	}
	return shape{
		whole: message(`{"type":"text","text":"hi"}`),
		tools: message(`{"type":"tool_use","id":"t","name":"weather","input":{"city":"Oslo"}}`),
		start: []string{event(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`), event(`{"type":"ping"}`)},
		delta: block(`{"type":"text","text":""}`, `{"type":"text_delta","text":"hi"}`),
		args:  block(`{"type":"tool_use","id":"t","name":"weather","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"city\":\"Oslo\"}"}`),
		stop:  []string{event(`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}`), event(`{"type":"message_stop"}`)},
		late:  event(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
	}
}

func responsesShape() shape {
	const item = `{"id":"i","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}`
	response := func(status, output, usage string) string {
		return `{"id":"r","object":"response","created_at":1,"model":"m","status":"` + status + `","error":null,"output":[` + output + `],"usage":` + usage + `}`
	}
	done := response("completed", item, `{"input_tokens":9,"output_tokens":3,"total_tokens":12}`)
	return shape{
		whole: done,
		start: []string{event(`{"type":"response.created","response":` + response("in_progress", "", "null") + `}`), event(`{"type":"response.in_progress","response":` + response("in_progress", "", "null") + `}`)},
		delta: []string{event(`{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"h"}`), event(`{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"i"}`)},
		stop:  []string{event(`{"type":"response.completed","response":` + done + `}`)},
		late:  event(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"overloaded"}}}`),
	}
}
