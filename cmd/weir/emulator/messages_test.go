package emulator

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMessages reads an answer in Anthropic's API, whole and as a stream: both
// say the same.
func TestMessages(t *testing.T) {
	s := start(t, `service: {base: 1ms, output_tokens_per_s: 1000}`)
	web := httptest.NewServer(s)
	defer s.Close()
	defer web.Close()
	post := func(body string) *http.Response {
		t.Helper()
		resp, err := http.Post(web.URL+"/v1/messages", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	var whole textMessage
	if err := json.NewDecoder(post(`{"model":"big","max_tokens":40,"system":"be brief","messages":[{"role":"user","content":"hello"}]}`).Body).Decode(&whole); err != nil {
		t.Fatal(err)
	}
	if whole.Type != "message" || whole.Usage.Output != 40 || whole.Usage.Input < 10 || *whole.StopReason != "max_tokens" || len(whole.Content) != 1 {
		t.Errorf("got %+v", whole)
	}

	resp := post(`{"model":"big","max_tokens":40,"stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("content type %q", kind)
	}
	var order []string
	var text strings.Builder
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok && (len(order) == 0 || order[len(order)-1] != name) {
			order = append(order, name)
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string
			Delta struct{ Text string }
			Usage struct {
				Output int64 `json:"output_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Type != order[len(order)-1] || e.Type == "message_delta" && e.Usage.Output != 40 {
			t.Errorf("%s: %v", data, err)
		}
		text.WriteString(e.Delta.Text)
	}
	if got, want := strings.Join(order, " "), "message_start content_block_start content_block_delta content_block_stop message_delta message_stop"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	if text.String() != whole.Content[0].Text {
		t.Errorf("streamed %q, whole %q", text.String(), whole.Content[0].Text)
	}

	for _, body := range []string{`{"model":"big","messages":[{"role":"user","content":"x"}]}`, `{"model":"big","max_tokens":5}`, `[]`} {
		if resp := post(body); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", body, resp.StatusCode)
		}
	}
}
