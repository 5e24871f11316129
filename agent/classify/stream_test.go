package classify

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/model"
)

func feed(s *Stream, text string) { _, _ = s.Write([]byte(text)) }

// seen is what a stream told after one more event.
type seen struct {
	Content, Terminal, Failed bool
	Usage                     Usage
}

func watch(s *Stream) seen { return seen{s.Content(), s.Terminal(), s.Failed(), s.Usage()} }

func TestStreamTellsAsItPasses(t *testing.T) {
	const no, yes = false, true
	type step struct {
		event string
		want  seen
	}
	for name, steps := range map[string][]step{
		"chat": {
			{`data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, seen{no, no, no, Usage{}}},
			{`: keep-alive`, seen{no, no, no, Usage{}}},
			{`data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`, seen{yes, no, no, Usage{}}},
			{`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`, seen{yes, yes, no, Usage{}}},
			{`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`, seen{yes, yes, no, Usage{9, 4, 2, true}}},
			{`data: [DONE]`, seen{yes, yes, no, Usage{9, 4, 2, true}}},
		},
		"chat tool call": {
			{`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}`, seen{yes, no, no, Usage{}}},
			{`data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, seen{yes, yes, no, Usage{}}},
		},
		"chat reasoning": {
			{`data: {"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}`, seen{yes, no, no, Usage{}}},
		},
		"completions": {
			{`data: {"choices":[{"text":"a","finish_reason":null}]}`, seen{yes, no, no, Usage{}}},
			{`data: {"choices":[{"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":3}}`, seen{yes, yes, no, Usage{1, 0, 3, true}}},
		},
		"messages": {
			{"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":20,\"cache_creation_input_tokens\":3,\"output_tokens\":1}}}", seen{no, no, no, Usage{28, 20, 1, true}}},
			{"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}", seen{no, no, no, Usage{28, 20, 1, true}}},
			{"event: ping\ndata: {\"type\":\"ping\"}", seen{no, no, no, Usage{28, 20, 1, true}}},
			{"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}", seen{yes, no, no, Usage{28, 20, 1, true}}},
			{"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}", seen{yes, yes, no, Usage{28, 20, 7, true}}},
			{"event: message_stop\ndata: {\"type\":\"message_stop\"}", seen{yes, yes, no, Usage{28, 20, 7, true}}},
		},
		"responses": {
			{`data: {"type":"response.created","response":{"status":"in_progress","error":null,"output":[],"reasoning":{"effort":"low"},"text":{"format":{"type":"text"}},"instructions":"say error"}}`, seen{no, no, no, Usage{}}},
			{`data: {"type":"response.output_item.added","item":{"type":"message","content":[]}}`, seen{no, no, no, Usage{}}},
			{`data: {"type":"response.output_text.delta","delta":"a"}`, seen{yes, no, no, Usage{}}},
			{`data: {"type":"response.completed","response":{"status":"completed","error":null,"usage":{"input_tokens":6,"input_tokens_details":{"cached_tokens":2},"output_tokens":4,"total_tokens":10}}}`, seen{yes, yes, no, Usage{6, 2, 4, true}}},
		},
		"gemini": {
			{`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"}}]}`, seen{no, no, no, Usage{}}},
			{`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}],"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3}}`, seen{yes, no, no, Usage{3, 0, 0, true}}},
			{`data: {"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"thoughtsTokenCount":5,"cachedContentTokenCount":1,"totalTokenCount":10}}`, seen{yes, yes, no, Usage{3, 1, 7, true}}},
		},
		"ollama": {
			{`{"model":"m","message":{"role":"assistant","content":"a"},"done":false}`, seen{yes, no, no, Usage{}}},
			{`{"model":"m","message":{"role":"assistant","content":""},"done":true,"prompt_eval_count":4,"eval_count":9}`, seen{yes, yes, no, Usage{4, 0, 9, true}}},
		},
		"error first": {
			{`data: {"error":{"type":"overloaded_error","message":"Overloaded"}}`, seen{no, no, yes, Usage{}}},
			{`data: {"choices":[{"delta":{"content":"late"},"finish_reason":"stop"}]}`, seen{no, no, yes, Usage{}}},
		},
		"error after the end": {
			{`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, seen{yes, yes, no, Usage{}}},
			{`data: {"error":{"message":"late"}}`, seen{yes, yes, no, Usage{}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClassifier(t).Stream(Answer{Status: 200, Stream: true})
			for i, step := range steps {
				end := "\n\n"
				if strings.HasPrefix(step.event, "{") {
					end = "\n"
				}
				feed(s, step.event+end)
				if diff := cmp.Diff(step.want, watch(s)); diff != "" {
					t.Fatalf("after event %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestStreamFailureBeforeClose(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newClassifier(t).Stream(Answer{Provider: "minimax", Status: 200})
	if _, ok := s.Failure(now); ok {
		t.Error("failure before the first event")
	}
	feed(s, "data: {\"base_resp\":{\"status_code\":1002,\"status_msg\":\"limit; resets at 2026-01-01T00:00:09Z\"}}\n\n")
	for range 2 { // asking changes nothing
		v, ok := s.Failure(now)
		if !ok || v.Class != model.ClassRateLimited || v.Code != "1002" || v.RetryAfter != 9*model.Second {
			t.Errorf("failure %+v, %v; want rate_limited by 1002 with 9s", v, ok)
		}
	}
	if v := s.Close(now, "connection reset"); v.Class != model.ClassRateLimited {
		t.Errorf("class %v at the end, want that of the event", v.Class)
	}
}

// TestStreamUsageOfPlainBody reads usage from bodies that are no stream, of
// any length.
func TestStreamUsageOfPlainBody(t *testing.T) {
	c := newClassifier(t)
	want := Usage{In: 11, Cached: 4, Out: 70, Known: true}
	for _, size := range []int{0, 20 << 10, 300 << 10, 3 << 20} {
		a := okAnswer(size)
		if v := c.Classify(a); v.Class != model.ClassOK || v.Usage != want {
			t.Errorf("body of %d bytes: %v with %+v, want ok with %+v", len(a.Body), v.Class, v.Usage, want)
		}
		s := c.Stream(a)
		for p := range bytes.SplitAfterSeq(a.Body, []byte(" ")) {
			_, _ = s.Write(p)
		}
		if v := s.Close(time.Time{}, ""); v.Class != model.ClassOK || v.Usage != want {
			t.Errorf("stream of %d bytes: %v by %s with %+v, want ok with %+v", len(a.Body), v.Class, v.Rule, v.Usage, want)
		}
		cut := c.Stream(a)
		_, _ = cut.Write(a.Body[:len(a.Body)-5])
		if v := cut.Close(time.Time{}, "unexpected EOF"); v.Class != model.ClassTransport {
			t.Errorf("stream of %d bytes cut short: %v by %s, want transport", len(a.Body), v.Class, v.Rule)
		}
	}
}

// TestStreamKeepsLittle feeds far more than the bounds, in every position that
// is buffered, and counts what is kept.
func TestStreamKeepsLittle(t *testing.T) {
	c := newClassifier(t)
	junk := bytes.Repeat([]byte("x"), 1<<20)
	for name, start := range map[string]string{
		"one line":    `data: {"choices":[{"delta":{"content":"`,
		"no line":     `x`,
		"plain body":  `{"choices":[{"message":{"content":"`,
		"event name":  `event: `,
		"comment":     `: `,
		"bare json":   "data: {}\n\n{\n",
		"second line": "{\"done\":false}\n{\"message\":{\"content\":\"",
		"refusal":     "",
	} {
		a := Answer{Status: 200}
		if name == "refusal" {
			a.Status = 429
		}
		s := c.Stream(a)
		feed(s, start)
		for range 8 {
			_, _ = s.Write(junk)
		}
		for range 1000 {
			feed(s, "data: y\ndata: y\n")
		}
		kept := 0
		for _, w := range []window{s.line, s.frame, s.body} {
			kept += cap(w.head) + cap(w.tail)
		}
		if kept > 256<<10 {
			t.Errorf("%s: keeps %d bytes", name, kept)
		}
		s.Close(time.Time{}, "")
	}
}

func TestStreamAllocatesNothingPerEvent(t *testing.T) {
	s := newClassifier(t).Stream(Answer{Status: 200})
	frame := []byte("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w\"},\"finish_reason\":null}]}\n\n")
	_, _ = s.Write(frame)
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Write(frame) }); n > 0 {
		t.Errorf("%v allocations per event, want none", n)
	}
}

// TestPartsOfStreams wants a part of an answer that failed or ended not to be
// taken for the answer.
func TestPartsOfStreams(t *testing.T) {
	c := newClassifier(t)
	for _, tt := range []struct {
		name, body string
		want       model.Class
	}{
		{"a tool's call fails", "data: {\"type\":\"response.mcp_call.failed\",\"item_id\":\"x\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n", model.ClassOK},
		{"a tool's call ends", "data: {\"type\":\"response.mcp_call.completed\",\"item_id\":\"x\"}\n\n", model.ClassTransport},
		{"the answer fails", "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\"}}}\n\n", model.ClassOverloaded},
		{"a chat fails", "event: conversation.chat.failed\ndata: {\"last_error\":{\"code\":1,\"msg\":\"rate limit\"}}\n\n", model.ClassRateLimited},
		{"by its event's name", "event: message\ndata: {\"answer\":\"hi\"}\n\nevent: done\ndata: {}\n\n", model.ClassOK},
		{"a quoted end", "event:message\ndata:{\"answer\":\"hi\"}\n\nevent:done\ndata:\"[DONE]\"\n\n", model.ClassOK},
	} {
		v := c.Classify(Answer{Status: 200, Stream: true, Body: []byte(tt.body)})
		if v.Class != tt.want {
			t.Errorf("%s: %s by %s, want %s", tt.name, v.Class, v.Rule, tt.want)
		}
	}
}
