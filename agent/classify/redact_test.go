package classify

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRedact(t *testing.T) {
	r := newClassifier(t).Redactor()
	request := []byte(`{"model":"gpt-5","max_completion_tokens":9,"messages":[{"role":"user","content":"Why is \u5929\u7a7a\u662f\u84dd\u8272\u7684 over\nReykjavik? The server was busy. zq"}]}`)
	for body, want := range map[string]string{
		`{"error":{"code":"mystery","message":"The server is busy"}}`: `{"error":{"code":"mystery","message":"The server is busy"}}`,
		`cannot answer: why is 天空是蓝色的 over Reykjavik`:                 `cannot answer: *`,
		`bad city reykjavik`:                              `bad city *`,
		`parameter max_completion_tokens is odd`:          `parameter max_*_tokens is odd`,
		`key sk-abc123 of a.b@c.org at 10.0.0.1`:          `key * of * at *`,
		`org-9f8e7d6c5b4a3f2e1d0c and Bearer abc.def`:     `* and *`,
		`insufficient_user_quota_for_something_very_long`: `insufficient_user_quota_for_something_very_long`,
		"binary \x00 body":                                "",
		"bad \xff\xfe bytes":                              "bad  bytes",
		"":                                                "",
	} {
		if got := r.Redact([]byte(body), request); got != want {
			t.Errorf("Redact(%q) = %q, want %q", body, got, want)
		}
	}
	if got := r.Redact([]byte(strings.Repeat("天", 2000)), nil); len(got) > MaxKept || !utf8.ValidString(got) {
		t.Errorf("%d bytes are left", len(got))
	}
}

// FuzzRedact holds that nothing longer than a few words of a request is left.
func FuzzRedact(f *testing.F) {
	f.Add([]byte(`{"error":"said my aunt keeps penguins in the cellar"}`), []byte(`{"content":"my aunt keeps penguins in the cellar"}`))
	f.Add([]byte(`\u5929\u7a7a`), []byte("天空 天空"))
	c, err := New()
	if err != nil {
		f.Fatal(err)
	}
	r := c.Redactor()
	f.Fuzz(func(t *testing.T, body, request []byte) {
		got := r.Redact(body, request)
		if len(got) > MaxKept || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
		asked := string(letters(request).text)
		for piece := range strings.SplitSeq(got, "*") {
			told := string(letters([]byte(piece)).text)
			for i := 0; i+quotedLatin <= len(told); i++ {
				if strings.Contains(asked, told[i:i+quotedLatin]) {
					t.Fatalf("%q is left of %q", told[i:i+quotedLatin], request)
				}
			}
		}
	})
}
