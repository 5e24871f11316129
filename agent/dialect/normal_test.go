package dialect

import (
	"strings"
	"testing"
)

func TestNormal(t *testing.T) {
	ignore := []string{"user", "metadata.trace", "messages.*.id"}
	normal := func(text string) string {
		b, err := Read(Chat, "application/json", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return string(b.Normal(ignore))
	}
	same := normal(`{"model":"m","temperature":1,"metadata":{"kind":"a"},"messages":[{"role":"user","content":"hi 1.0"}]}`)
	for _, text := range []string{
		` { "temperature" : 1.0, "model":"m", "messages":[ {"content":"hi 1.0","role":"user"} ], "metadata":{"kind":"a"} } `,
		`{"model":"m","temperature":1e0,"user":"u-17","metadata":{"trace":"9f","kind":"a"},"messages":[{"id":"x","role":"user","content":"\u0068i 1.0"}]}`,
	} {
		if got := normal(text); got != same {
			t.Errorf("%s\nis %s\nnot %s", text, got, same)
		}
	}
	for _, text := range []string{
		`{"model":"m","temperature":1,"metadata":{"kind":"b"},"messages":[{"role":"user","content":"hi 1.0"}]}`,
		`{"model":"m","temperature":1,"metadata":{"kind":"a"},"messages":[{"role":"user","content":"hi 1"}]}`,
		`{"model":"m","temperature":1,"stream":true,"metadata":{"kind":"a"},"messages":[{"role":"user","content":"hi 1.0"}]}`,
	} {
		if got := normal(text); got == same {
			t.Errorf("%s is %s", text, got)
		}
	}
	if a, b := normal(`{"model":"m","seed":9007199254740993}`), normal(`{"model":"m","seed":9007199254740992}`); a == b {
		t.Errorf("two seeds are one: %s", a)
	}
	large := `{"model":"m","user":"` + strings.Repeat("x", maxNormal) + `"}`
	if normal(large) != large {
		t.Error("a large body is not itself")
	}
}
