package classify

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const okBody = `{"id":"chatcmpl-1","object":"chat.completion","created":1767225600,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
	`Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua. ` +
	`","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":70,"total_tokens":81,"prompt_tokens_details":{"cached_tokens":4}}}`

func okAnswer(size int) Answer {
	pad := strings.Repeat(`Lorem ipsum \"dolor\" sit amet. `, size/32)
	return Answer{
		Status: 200,
		Header: http.Header{"Content-Type": {"application/json"}, "Date": {"Thu, 01 Jan 2026 00:00:00 GMT"}},
		Body:   []byte(strings.Replace(okBody, "Lorem", pad+"Lorem", 1)),
	}
}

func limitedAnswer() Answer {
	return Answer{
		Provider: "somebody", Status: 429, Now: time.Unix(1767225600, 0),
		Header: http.Header{
			"Content-Type":                   {"application/json"},
			"Retry-After":                    {"3"},
			"X-Ratelimit-Limit-Tokens":       {"30000"},
			"X-Ratelimit-Remaining-Tokens":   {"12"},
			"X-Ratelimit-Reset-Tokens":       {"56.1s"},
			"X-Ratelimit-Limit-Requests":     {"500"},
			"X-Ratelimit-Remaining-Requests": {"499"},
		},
		Body: []byte(`{"error":{"message":"Rate limit hit for m in organization org-1 on tokens per min (TPM): Limit 30000, Used 29988, Requested 900. Try again in 2.1s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`),
	}
}

func BenchmarkClassify(b *testing.B) {
	c := newClassifier(b)
	for name, a := range map[string]Answer{"ok-1k": okAnswer(1 << 10), "ok-64k": okAnswer(64 << 10), "limited": limitedAnswer()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(a.Body)))
			for b.Loop() {
				c.Classify(a)
			}
		})
	}
}

func BenchmarkStream(b *testing.B) {
	c := newClassifier(b)
	frame := []byte("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n")
	s := c.Stream(Answer{Status: 200})
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		_, _ = s.Write(frame)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New(); err != nil {
			b.Fatal(err)
		}
	}
}
