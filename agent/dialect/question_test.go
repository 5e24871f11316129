package dialect

import (
	"strings"
	"testing"
)

// TestQuestion says which requests may be compared by meaning, and which of
// them are alike but for it.
func TestQuestion(t *testing.T) {
	ask := func(d Dialect, body string) (string, [32]byte, bool) {
		t.Helper()
		b, err := ParseBody([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return b.Question(d)
	}
	text, rest, ok := ask(Chat, `{"model":"m","temperature":0,"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"how are you?"}]}`)
	if !ok || text != "how are you?" {
		t.Fatalf("%q %v", text, ok)
	}
	for body, same := range map[string]bool{
		`{"temperature":0, "messages":[{"role":"system","content":"be kind"},{"content":"hello, you","role":"user"}], "model":"m"}`:               true,
		`{"model":"m","temperature":0,"messages":[{"role":"system","content":"be kind"},{"role":"user","content":[{"type":"text","text":"x"}]}]}`: true,
		`{"model":"m","temperature":1,"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"how are you?"}]}`:               false,
		`{"model":"m","temperature":0,"messages":[{"role":"system","content":"be rude"},{"role":"user","content":"how are you?"}]}`:               false,
		`{"model":"m","temperature":0,"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"how are you, 7?"}]}`:            false,
		`{"model":"n","temperature":0,"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"how are you?"}]}`:               false,
		`{"model":"m","stream":true,"temperature":0,"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"how are you?"}]}`: false,
	} {
		if _, other, ok := ask(Chat, body); !ok || (other == rest) != same {
			t.Errorf("%s: %v, same %v", body, ok, other == rest)
		}
	}
	_, one, _ := ask(Chat, `{"model":"m","messages":[{"role":"user","content":"12 and 5"}]}`)
	if _, other, _ := ask(Chat, `{"model":"m","messages":[{"role":"user","content":"1 and 25"}]}`); one == other {
		t.Error("other numbers are the same")
	}
	for body, d := range map[string]Dialect{
		`{"model":"m","input":"hi"}`: Responses,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`: Responses,
		`{"model":"m","prompt":"hi"}`: Completions,
		`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`: Messages,
	} {
		if text, _, ok := ask(d, body); !ok || text != "hi" {
			t.Errorf("%s: %q %v", body, text, ok)
		}
	}
	for body, d := range map[string]Dialect{
		`{"model":"m","messages":[` + strings.Repeat("0,", maxNormal/2) + `{"role":"user","content":"a"}]}`: Chat,
		`{"model":"m"}`:                                                 Chat,
		`{"model":"m","messages":[]}`:                                   Chat,
		`{"model":"m","messages":null}`:                                 Chat,
		`{"model":"m","messages":[{"role":"user","content":null}]}`:     Chat,
		`{"model":"m","messages":[{"role":"user","content":""}]}`:       Chat,
		`{"model":"m","messages":[{"role":"user"}]}`:                    Chat,
		`{"model":"m","messages":[{"role":"assistant","content":"a"}]}`: Chat,
		`{"model":"m","messages":[{"role":"tool","content":"a"}]}`:      Chat,
		`{"model":"m","messages":["a"]}`:                                Chat,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}]}`: Chat,
		`{"model":"m","prompt":["a","b"]}`: Completions,
		`{"model":"m","prompt":null}`:      Completions,
		`{"model":"m","input":"a"}`:        Embeddings,
	} {
		if text, _, ok := ask(d, body); ok {
			t.Errorf("%s: %q", body, text)
		}
	}
}
