package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"weir/agent"
	"weir/model"
)

// TestOpenAISDK calls through the proxy as most clients do.
func TestOpenAISDK(t *testing.T) {
	params := openai.ChatCompletionNewParams{
		Model:    "route",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
	}
	sdk := func(w *world) openai.Client {
		return openai.NewClient(option.WithBaseURL(w.server.URL+"/v1"), option.WithAPIKey("client-key"))
	}

	t.Run("plain", func(t *testing.T) {
		w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) })
		client := sdk(w)
		got, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if got.Choices[0].Message.Content != "hi" || got.Usage.TotalTokens != 12 {
			t.Errorf("got %+v", got)
		}
		list, err := client.Models.List(t.Context())
		if err != nil || len(list.Data) != 1 || list.Data[0].ID != "route" {
			t.Errorf("models %+v, %v", list, err)
		}
	})

	t.Run("stream", func(t *testing.T) {
		w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			stream(w, roleFrame, textFrame, textFrame, finishFrame, usageFrame, doneFrame)
		})
		client := sdk(w)
		s := client.Chat.Completions.NewStreaming(t.Context(), params)
		var text strings.Builder
		for s.Next() {
			for _, c := range s.Current().Choices {
				text.WriteString(c.Delta.Content)
			}
		}
		if err := s.Err(); err != nil || text.String() != "hihi" {
			t.Errorf("text %q, %v", text.String(), err)
		}
		if a := w.attempts(); len(a) != 1 || a[0].Class != model.ClassOK || a[0].Out != 3 {
			t.Errorf("reported %+v", a)
		}
	})

	t.Run("stream breaks", func(t *testing.T) {
		w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			stream(w, textFrame)
			pauseShort()
			reset(w)
		})
		client := sdk(w)
		s := client.Chat.Completions.NewStreaming(t.Context(), params)
		n := 0
		for s.Next() {
			n++
		}
		if err := s.Err(); n != 1 || err == nil || !strings.Contains(err.Error(), "broke off") {
			t.Errorf("%d chunks, then %v", n, err)
		}
	})

	t.Run("refused", func(t *testing.T) {
		for _, tt := range []struct {
			status int
			body   string
			want   int
			code   string
			kind   string
		}{
			{200, busyAnswer, 503, "2064", "server_error"},
			{429, `{"error":{"code":"insufficient_quota","type":"insufficient_quota","message":"You exceeded your current quota"}}`, 429, "insufficient_quota", "insufficient_quota"},
			{400, `{"error":{"code":"context_length_exceeded","type":"invalid_request_error","message":"too long"}}`, 400, "context_length_exceeded", "invalid_request_error"},
		} {
			calls := 0
			w := newWorld(t, func(n int, w http.ResponseWriter, _ *http.Request) { calls = n; say(w, tt.status, tt.body) })
			w.earn(8)
			client := sdk(w)
			_, err := client.Chat.Completions.New(t.Context(), params)
			var e *openai.Error
			if !errors.As(err, &e) || e.StatusCode != tt.want || e.Code != tt.code || e.Type != tt.kind || e.Message == "" {
				t.Errorf("error %v, want %d %s", err, tt.want, tt.code)
			}
			if reported := len(w.attempts()); reported != calls || calls > 3 {
				t.Errorf("%d calls reached the provider, %d are reported: the SDK repeated", calls, reported)
			}
		}
	})
}

// TestOpenAIForGo tries what else there is against a provider that does what
// it is asked.
func TestOpenAIForGo(t *testing.T) {
	p := newPrompted(t)
	w := newWorld(t, p.serve, func(c *agent.Config) {
		c.Fleet.Channels[0].Provider = ""
		troubled(c)
	})
	client := openai.NewClient(option.WithBaseURL(w.server.URL+"/v1"), option.WithAPIKey("client-key"))
	ask := func(route, prompt string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: route, Messages: []openai.ChatCompletionMessageParamUnion{{
			OfUser: &openai.ChatCompletionUserMessageParam{Content: openai.ChatCompletionUserMessageParamContentUnion{OfString: openai.String(prompt)}},
		}}}
	}

	t.Run("tools", func(t *testing.T) {
		got, err := client.Chat.Completions.New(t.Context(), ask("route", "tools"))
		if err != nil || got.Choices[0].Message.ToolCalls[0].Function.Arguments != `{"city":"Oslo"}` {
			t.Errorf("got %+v, %v", got, err)
		}
	})

	t.Run("embeddings", func(t *testing.T) {
		got, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "route", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("x")}})
		if err != nil || len(got.Data[0].Embedding) != 3 {
			t.Errorf("got %+v, %v", got, err)
		}
	})

	t.Run("abort", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := client.Chat.Completions.NewStreaming(ctx, ask("route", "hangs"))
		for s.Next() {
			cancel()
		}
		if err := s.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("the stream ends with %v", err)
		}
		p.wantAborted(t, "hangs")
	})

	for name, want := range map[string]openai.Error{
		"rate":       {StatusCode: 429, Code: "rate_limit_exceeded", Type: "rate_limit_error"},
		"quota":      {StatusCode: 429, Code: "insufficient_quota", Type: "insufficient_quota"},
		"auth":       {StatusCode: 503, Code: "invalid_api_key", Type: "server_error"},
		"invalid":    {StatusCode: 400, Code: "context_length_exceeded", Type: "invalid_request_error"},
		"overloaded": {StatusCode: 503, Code: "server_is_overloaded", Type: "server_error"},
		"hidden":     {StatusCode: 503, Code: "2064", Type: "server_error"},
		"reset":      {StatusCode: 503, Code: "upstream_unreachable", Type: "server_error"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Chat.Completions.New(t.Context(), ask("route-"+name, name))
			var e *openai.Error
			if !errors.As(err, &e) || e.StatusCode != want.StatusCode || e.Code != want.Code || e.Type != want.Type || e.Message == "" {
				t.Errorf("error %v, want %d %s %s", err, want.StatusCode, want.Code, want.Type)
			}
			s := client.Chat.Completions.NewStreaming(t.Context(), ask("route-"+name+"-streamed", name))
			for s.Next() {
				t.Error("got a chunk")
			}
			if !errors.As(s.Err(), &e) || e.StatusCode != want.StatusCode || e.Code != want.Code {
				t.Errorf("streamed: error %v, want %d %s", s.Err(), want.StatusCode, want.Code)
			}
			if n := p.counts()[name]; n > 3 {
				t.Errorf("the provider was called %d times", n)
			}
		})
	}
}
