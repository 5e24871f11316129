package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/agent"
	"weir/model"
)

// meanings is a provider of embeddings and answers: what begins with the same
// letter means nearly the same, and a capital is a little farther off.
func meanings(n int, w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/embeddings") {
		say(w, 200, strings.Replace(goodAnswer, `"hi"`, fmt.Sprintf(`"answer %d"`, n), 1))
		return
	}
	var asked struct {
		Input string `json:"input"`
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &asked) != nil || asked.Input == "" {
		say(w, 400, `{"error":{"message":"no input"}}`)
		return
	}
	v := make([]float64, 300)
	c := asked.Input[0]
	if v[c] = 3; c < 'a' { // a capital: cosine 0.9 with the small letter
		v[c|0x20], v[c] = 0.9, 0.43589
	}
	v[299] = 0.01 * float64(len(asked.Input))
	text, _ := json.Marshal(v)
	say(w, 200, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":`+string(text)+`}],"usage":{"prompt_tokens":3,"total_tokens":3}}`)
}

func semantic(c *agent.Config) {
	c.Semantic = agent.SemanticConfig{Route: "embed"}
	c.Fleet.Routes = append(c.Fleet.Routes, model.RouteConfig{Name: "embed", Tiers: []model.TierConfig{{Channels: []model.WeightedChannel{{Channel: "main", Weight: 1}}}}})
}

func question(text string) string {
	return strings.Replace(plainBody, "hello there", text, 1)
}

// TestSemanticCache asks what means nearly the same, and what only seems to.
func TestSemanticCache(t *testing.T) {
	w := newWorld(t, meanings, semantic)
	ask := func(body string, header ...string) answer {
		t.Helper()
		got := w.post("/v1/chat/completions", body, header...)
		if got.status != 200 || got.err != nil {
			t.Fatalf("%+v", got)
		}
		return got
	}
	first := ask(question("apples, please"))
	for name, c := range map[string]struct {
		body   string
		header []string
		want   string
	}{
		"the same to the byte":   {question("apples, please"), nil, "hit"},
		"nearly the same":        {question("all the apples, please"), nil, "similar"},
		"not near enough":        {question("Apples, please"), nil, ""},
		"another meaning":        {question("bring bread"), nil, ""},
		"other numbers":          {question("apples, 7 please"), nil, ""},
		"other settings":         {strings.Replace(question("all apples, please"), `{"model"`, `{"seed":1,"model"`, 1), nil, ""},
		"another client":         {question("all apples"), []string{"Authorization", "Bearer other"}, ""},
		"another tenant":         {question("all apples!"), []string{"X-Weir-Tenant", "content"}, ""},
		"a client that will not": {question("apples, apples"), []string{"X-Weir-Cache", "off"}, ""},
	} {
		got := ask(c.body, c.header...)
		if got.header.Get("X-Weir-Cache") != c.want || (got.body == first.body) != (c.want != "") {
			t.Errorf("%s: X-Weir-Cache %q, want %q: %s", name, got.header.Get("X-Weir-Cache"), c.want, got.body)
		}
	}
	text := w.get("/metrics")
	for _, want := range []string{`weir_cache_total{kind="semantic",result="hit"} 2`, `weir_cache_total{kind="semantic",result="miss"} 7`, `weir_cache_total{kind="semantic",result="failed"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// TestSemanticCacheWithoutEmbeddings answers as ever when embeddings cannot be
// had, and does not ask for more of them at once.
func TestSemanticCacheWithoutEmbeddings(t *testing.T) {
	for name, embed := range map[string]script{
		"refused":   always(429, `{"error":{"message":"no","code":"rate_limit_exceeded"}}`),
		"denied":    always(400, `{"error":{"message":"no"}}`),
		"no JSON":   always(200, `<html>`),
		"none":      always(200, `{"data":[]}`),
		"empty":     always(200, `{"data":[{"embedding":[]}]}`),
		"zero":      always(200, `{"data":[{"embedding":[0,0]}]}`),
		"too large": always(200, `{"data":[{"embedding":[`+strings.Repeat("1,", 9000)+`1]}]}`),
		"overflow":  always(200, `{"data":[{"embedding":[1e39]}]}`),
		"silent": func(_ int, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/embeddings") {
					embed(n, w, r)
					return
				}
				say(w, 200, goodAnswer)
			}, semantic, func(c *agent.Config) { c.Fleet.Retry.MaxAttempts = 1 })
			for _, q := range []string{"apples", "all apples", "apples"} {
				got := w.post("/v1/chat/completions", question(q), "X-Weir-Deadline-Ms", "15000")
				if got.status != 200 || got.header.Get("X-Weir-Cache") == "similar" {
					t.Errorf("%s: %+v", q, got)
				}
			}
			if text := w.get("/metrics"); !strings.Contains(text, `weir_cache_total{kind="semantic",result="failed"} 1`) {
				t.Errorf("metrics lack the one failure")
			}
		})
	}
}

// always is a script that says the same each time.
func always(status int, body string) script {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, status, body) }
}
