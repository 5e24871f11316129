package emulator

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// client is OpenAI's own library, which must find nothing odd.
func client(t *testing.T, s *Server) openai.Client {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		s.Close()
	})
	return openai.NewClient(option.WithBaseURL(web.URL+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

func params() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:     "big",
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		MaxTokens: openai.Int(40),
	}
}

func TestOpenAILibraryReadsAnswers(t *testing.T) {
	c := client(t, start(t, `service: {base: 1ms, output_tokens_per_s: 1000}`))
	answer, err := c.Chat.Completions.New(t.Context(), params())
	if err != nil {
		t.Fatal(err)
	}
	if answer.Usage.CompletionTokens != 40 || answer.Choices[0].FinishReason != "length" || answer.Choices[0].Message.Content == "" {
		t.Errorf("answer %+v", answer)
	}
	p := params()
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(t.Context(), p)
	sum := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !sum.AddChunk(stream.Current()) {
			t.Errorf("chunk does not fit: %+v", stream.Current())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if sum.Usage.CompletionTokens != 40 || sum.Choices[0].Message.Content != answer.Choices[0].Message.Content || sum.Choices[0].FinishReason != "length" {
		t.Errorf("streamed %+v", sum.ChatCompletion)
	}
	vectors, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "small", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}}, Dimensions: openai.Int(5),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(vectors.Data) != 2 || len(vectors.Data[1].Embedding) != 5 || vectors.Usage.PromptTokens != 2 {
		t.Errorf("embeddings %+v", vectors)
	}
	models, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(models.Data) != 2 || models.Data[0].ID != "big" {
		t.Errorf("models %+v", models.Data)
	}
}

func TestOpenAILibraryReadsRefusals(t *testing.T) {
	c := client(t, start(t, `
		rpm: {limit: 0, burst: 0}
		refusal: {delay: 1ms, retry_after: 7s}`))
	_, err := c.Chat.Completions.New(t.Context(), params())
	var fault *openai.Error
	if !errors.As(err, &fault) {
		t.Fatalf("got %v", err)
	}
	if fault.StatusCode != http.StatusTooManyRequests || fault.Code != "rate_limit_exceeded" || fault.Type != "requests" || fault.Response.Header.Get("Retry-After") != "7" {
		t.Errorf("refusal %+v", fault)
	}
}
