package proxy

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"weir/agent"
	"weir/model"
)

// form writes a form with fields, by name and value, and one file.
func form(t *testing.T, content string, fields ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := w.CreateFormFile("file", "talk.wav")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// TestPaths calls what lies under the base URL beside chat: it passes as it
// is, but for the model's name and the key, and its usage is known where the
// shape is.
func TestPaths(t *testing.T) {
	speech := "ID3\x04\x00" + strings.Repeat("\x00\xff\xfb", 3000)
	upload, uploadType := form(t, "hello", "purpose", "batch")
	talk, talkType := form(t, `{"model":"route"}`, "model", "route", "language", "en")
	const responses = `{"id":"r","object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}}`
	for _, tt := range []struct {
		name, method, path, body, kind string
		answer, answerType             string
		in, out                        model.Tokens
		known                          bool
	}{
		{"completions", "POST", "/v1/completions", `{"model":"route","prompt":"hello"}`, "", `{"object":"text_completion","choices":[{"text":"hi","finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`, "", 9, 3, true},
		{"responses", "POST", "/v1/responses", `{"model":"route","input":"hello"}`, "", responses, "", 9, 3, true},
		{"embeddings", "POST", "/v1/embeddings", `{"model":"route","input":"hello"}`, "", `{"object":"list","data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":9,"total_tokens":9}}`, "", 9, 0, true},
		{"images", "POST", "/v1/images/generations", `{"model":"route","prompt":"a weir"}`, "", `{"created":1,"data":[{"b64_json":"aGVsbG8="}]}`, "", 9, 0, false},
		{"speech", "POST", "/v1/audio/speech", `{"model":"route","input":"hello","voice":"a"}`, "", speech, "audio/mpeg", 12, 0, false},
		{"transcription", "POST", "/v1/audio/transcriptions", talk, talkType, `{"text":"hello"}`, "", 1000, 0, false},
		{"text of a transcription", "POST", "/v1/audio/transcriptions", talk, talkType, "hello\n", "text/plain", 1000, 0, false},
		{"upload", "POST", "/v1/files", upload, uploadType, `{"id":"file-1","object":"file","bytes":5,"status":"processed"}`, "", 0, 0, true},
		{"list", "GET", "/v1/files?limit=2", "", "", `{"object":"list","data":[]}`, "", 0, 0, true},
		{"list of completions", "GET", "/v1/chat/completions", "", "", `{"object":"list","data":[]}`, "", 0, 0, true},
		{"content", "GET", "/v1/files/file-1/content", "", "", "\x00\x01binary", "application/octet-stream", 0, 0, true},
		{"delete", "DELETE", "/v1/files/file-1", "", "", `{"id":"file-1","object":"file","deleted":true}`, "", 0, 0, true},
		{"a batch that failed", "GET", "/v1/batches/b", "", "", `{"id":"b","object":"batch","status":"failed","errors":{"object":"list","data":[{"code":"rate_limit_exceeded","message":"x"}]}}`, "", 0, 0, true},
		{"a response", "GET", "/v1/responses/r", "", "", responses, "", 0, 0, true},
		{"no body", "POST", "/v1/responses/r/cancel", "", "", responses, "", 0, 0, true},
		{"counting", "POST", "/v1/messages/count_tokens", `{"model":"route","messages":[]}`, "", `{"input_tokens":14}`, "", 9, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.answerType == "" {
				tt.answerType = "application/json"
			}
			method := ""
			w := newWorld(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				method = r.Method
				say(w, http.StatusOK, tt.answer, "Content-Type", tt.answerType)
			}, func(c *agent.Config) { c.Fleet.Channels[0].Provider = "" })
			r := w.request(t.Context(), tt.path, tt.body)
			r.Method = tt.method
			if tt.kind != "" {
				r.Header.Set("Content-Type", tt.kind)
			}
			got := w.do(r)
			if got.status != http.StatusOK || got.body != tt.answer || got.header.Get("Content-Type") != tt.answerType || got.header.Get("X-Weir-Channel") != "main" {
				t.Errorf("status %d, headers %v, body %.200q", got.status, got.header, got.body)
			}
			want := strings.Replace(tt.body, `"model":"route"`, `"model":"main-model"`, 1)
			if tt.kind == talkType { // the file holds the same words, which are not the client's model
				want = strings.Replace(tt.body, "\r\nroute\r\n", "\r\nmain-model\r\n", 1)
			}
			up := w.got()[0]
			if up.body != want || method != tt.method || up.path != tt.path || up.header.Get("Authorization") != "Bearer "+providerKey && up.header.Get("X-Api-Key") != providerKey {
				t.Errorf("the provider got %s %s %v\n%q\nwant\n%q", method, up.path, up.header, up.body, want)
			}
			all := w.attempts()
			if len(all) != 1 || all[0].Class != model.ClassOK || all[0].UsageKnown != tt.known {
				t.Fatalf("reported %+v", all)
			}
			if a := all[0]; a.Out != tt.out || tt.known && a.In != tt.in || !tt.known && (a.In < tt.in/2 || tt.in == 0 && a.In > 1) {
				t.Errorf("%d tokens in and %d out are reported, want about %d and %d", a.In, a.Out, tt.in, tt.out)
			}
		})
	}
}

// TestUploadIsNotMadeTwice holds that what would make a second file is not
// repeated when the provider may have made the first, and is when it cannot.
func TestUploadIsNotMadeTwice(t *testing.T) {
	body, kind := form(t, "hello", "purpose", "batch")
	for _, tt := range []struct {
		name  string
		first func(w http.ResponseWriter)
		calls int
	}{
		{"reset", reset, 1},
		{"refused", func(w http.ResponseWriter) { say(w, 503, `{"error":{"message":"overloaded"}}`) }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n == 1 {
					tt.first(w)
					return
				}
				say(w, 200, `{"id":"file-1","object":"file"}`)
			})
			w.earn(4)
			got := w.post("/v1/files", body, "Content-Type", kind)
			if n := len(w.got()); n != tt.calls || (got.status == 200) != (tt.calls == 2) {
				t.Errorf("status %d after %d calls: %s", got.status, n, got.body)
			}
		})
	}
}

// TestRoutes holds which route a request takes that names no model.
func TestRoutes(t *testing.T) {
	w := newWorldOf(t, map[string]script{
		"main":  func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 200, `{"object":"list","data":[]}`) },
		"spare": func(_ int, w http.ResponseWriter, _ *http.Request) { say(w, 200, `{"object":"list","data":[]}`) },
	}, func(c *agent.Config) {
		spare := model.TierConfig{Channels: []model.WeightedChannel{{Channel: "spare", Weight: 1}}}
		c.Fleet.Routes = append(c.Fleet.Routes, model.RouteConfig{Name: "other", Tiers: []model.TierConfig{spare}, DegradeCore: -1})
	})
	list := func(header ...string) answer {
		r := w.request(t.Context(), "/v1/files", "", header...)
		r.Method = http.MethodGet
		return w.do(r)
	}
	if got := list("X-Weir-Route", "other"); got.status != 200 || got.header.Get("X-Weir-Channel") != "spare" {
		t.Errorf("a named route: status %d, %v", got.status, got.header)
	}
	if got := list("X-Weir-Route", "nowhere"); errorOf(t, got).Code != "model_not_found" {
		t.Errorf("an unknown one: %s", got.body)
	}
	if got := list(); got.status != 400 || errorOf(t, got).Code != "no_route" {
		t.Errorf("none of two: %d %s", got.status, got.body)
	}
	if got := w.post("/v1/organization/admin_api_keys", `{"name":"x"}`); got.status != 404 {
		t.Errorf("administration of the account: %d %s", got.status, got.body)
	}
}

// TestStatedFields holds what comes of members that a channel does not know.
func TestStatedFields(t *testing.T) {
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }, func(c *agent.Config) {
		u := c.Upstreams["main"]
		u.Drop, u.Refuse = []string{"logit_bias", "seed", "last"}, []string{"tools"}
		c.Upstreams["main"] = u
	})
	for in, want := range map[string]string{
		`{"seed":1, "model":"route","logit_bias":{"1":[2,"}"]},"messages":[],"last":1}`: `{"model":"main-model","messages":[]}`,
		`{"model":"route"}`:                         `{"model":"main-model"}`,
		`{"seed":1,"seed":2,"model":"route"}`:       `{"model":"main-model"}`,
		`{"model":"route","seed":1,"last":2 }`:      `{"model":"main-model"}`,
		`{"stream":false,"seed":1,"model":"route"}`: `{"stream":false,"model":"main-model"}`,
	} {
		if got := w.post("/v1/chat/completions", in); got.status != 200 {
			t.Errorf("%s: status %d: %s", in, got.status, got.body)
		}
		if up := w.got()[len(w.got())-1]; up.body != want {
			t.Errorf("%s became %s, want %s", in, up.body, want)
		}
	}
	calls := len(w.got())
	got := w.post("/v1/chat/completions", `{"model":"route","messages":[],"tools":[{"type":"function"}]}`)
	if e := errorOf(t, got); got.status != 400 || e.Code != "unsupported_field" || e.Weir.Channel != "main" || !strings.Contains(e.Message, "tools") || len(w.got()) != calls {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	for _, a := range w.attempts() {
		if a.Class != model.ClassOK {
			t.Errorf("reported %+v", a)
		}
	}
}

// TestEstimateIsCorrected holds that what is reserved follows what the channel
// reports, and that a call it reports nothing of is settled by that.
func TestEstimateIsCorrected(t *testing.T) {
	silent := strings.Replace(goodAnswer, `,"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}`, "", 1)
	counted := strings.Replace(goodAnswer, `"prompt_tokens":9`, `"prompt_tokens":1000`, 1)
	w := newWorld(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 40 {
			say(w, 200, silent)
			return
		}
		say(w, 200, counted)
	})
	body := strings.Replace(plainBody, "hello there", strings.Repeat("hello there ", 150), 1) // about 500 tokens
	for range 40 {
		if got := w.post("/v1/chat/completions", body); got.status != 200 {
			t.Fatalf("status %d: %s", got.status, got.body)
		}
	}
	if text := w.get("/metrics"); !strings.Contains(text, `weir_estimate_factor{channel="main"} 2`) && !strings.Contains(text, `weir_estimate_factor{channel="main"} 1.9`) || !strings.Contains(text, `weir_estimate_error_ratio{channel="main"} 0.`) {
		t.Errorf("metrics:\n%s", text)
	}
	all := w.attempts()
	first, last := all[0], all[len(all)-1]
	if first.Reserved > 700 || last.Reserved < 950 || last.Reserved > 1200 {
		t.Errorf("%d tokens are reserved at first and %d in the end, for 1003", first.Reserved, last.Reserved)
	}
	if last.UsageKnown || last.In < 900 || last.In > 1100 {
		t.Errorf("a call without usage is settled with %d tokens: %+v", last.In, last)
	}
}
