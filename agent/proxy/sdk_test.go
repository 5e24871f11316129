package proxy

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

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
