package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"weir/model"
)

// library is a transport in front of one scripted provider.
func library(t *testing.T, provider http.HandlerFunc, edit ...func(*Config)) *Transport {
	t.Helper()
	up := httptest.NewServer(provider)
	t.Cleanup(up.Close)
	cfg := Config{
		Agent: "library",
		Fleet: &model.Config{
			Channels: []model.ChannelConfig{{Name: "main", Model: "provider-model", Alone: 8}},
			Routes:   []model.RouteConfig{{Name: "route", Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}}}}},
		},
		Upstreams: map[string]Upstream{"main": {BaseURL: up.URL + "/v1"}},
	}
	for _, f := range edit {
		f(&cfg)
	}
	client, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	transport := client.Transport()
	t.Cleanup(func() {
		if err := client.Close(context.Background()); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
	return transport
}

const answered = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`

func TestTransportInAnSDK(t *testing.T) {
	var path, asked string
	transport := library(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path, asked = r.Host+r.URL.Path, string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answered)
	})
	sdk := openai.NewClient(
		option.WithBaseURL("http://weir.internal/v1"), option.WithAPIKey("none"),
		option.WithHTTPClient(&http.Client{Transport: transport}),
	)
	got, err := sdk.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
		Model: "route", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
	})
	if err != nil || got.Choices[0].Message.Content != "hi" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if strings.Contains(path, "weir.internal") || !strings.Contains(asked, `"provider-model"`) {
		t.Errorf("the provider at %s got %s", path, asked)
	}
	_, err = sdk.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "other"})
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 404 || e.Code != "model_not_found" {
		t.Errorf("error %v", err)
	}
}

// TestTransportLeavesTheRequest holds http.RoundTripper's contract.
func TestTransportLeavesTheRequest(t *testing.T) {
	transport := library(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answered) })
	body := &closing{Reader: strings.NewReader(`{"model":"route"}`)}
	r, err := http.NewRequest(http.MethodPost, "http://weir/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer own")
	r.Header.Set("X-Weir-Core", "1")
	before := r.Header.Clone()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); string(text) != answered || err != nil || resp.ContentLength != int64(len(answered)) {
		t.Errorf("got %s, %v, length %d", text, err, resp.ContentLength)
	}
	if !body.closed || len(r.Header) != len(before) || r.Header.Get("Authorization") != "Bearer own" || r.URL.Host != "weir" {
		t.Errorf("closed %v, request %+v", body.closed, r)
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// TestBodiesAreBoundedTogether has many large requests at once: some are
// refused, none is kept beyond its call.
func TestBodiesAreBoundedTogether(t *testing.T) {
	release := make(chan struct{})
	transport := library(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
		_, _ = io.WriteString(w, answered)
	})
	transport.bodies.limit = 10 << 20
	text := `{"model":"route","prompt":"` + strings.Repeat("x", 3<<20) + `"}`
	statuses := make(chan int, 8)
	for range 8 {
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://weir/v1/completions", strings.NewReader(text))
			if err != nil {
				t.Error(err)
			}
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			statuses <- resp.StatusCode
			_ = resp.Body.Close()
		}()
	}
	first := <-statuses
	if first != http.StatusServiceUnavailable {
		t.Errorf("the first answer has status %d, want a refusal", first)
	}
	close(release)
	served := 0
	for range 7 {
		if s := <-statuses; s == http.StatusOK {
			served++
		}
	}
	if served < 1 || served > 3 { // those that grow at the same time may all be refused
		t.Errorf("%d large requests were served together, want 1 to 3", served)
	}
	if used := transport.bodies.used.Load(); used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
}
