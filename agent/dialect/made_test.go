package dialect

import (
	"strings"
	"testing"
)

func TestMadeBy(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"first", `{"model":"a-1","choices":[]}`, "a-1"},
		{"after others", `{"id":"x","n":1,"list":[{"model":"no"}],"o":{"model":"no"},"model":"a"}`, "a"},
		{"cut behind it", `{"model":"a","choices":[{"mess`, "a"},
		{"message", `{"type":"message_start","message":{"id":"m","model":"claude","content":[]}}`, "claude"},
		{"response", `{"type":"response.created","response":{"model":"gpt","output":[]}}`, "gpt"},
		{"none", `{"choices":[]}`, ""},
		{"cut before it", `{"choices":[{"model":"no"`, ""},
		{"no text", `{"model":{"name":"a"}}`, ""},
		{"not a name", `{"model":"tell me a story"}`, ""},
		{"long", `{"model":"` + strings.Repeat("m", maxModel+1) + `"}`, ""},
		{"late", `{"x":"` + strings.Repeat("x", maxMadeBy) + `","model":"a"}`, ""},
		{"deep", strings.Repeat(`{"message":`, 5000), ""},
		{"deep list", `{"x":` + strings.Repeat("[", 1<<14), ""},
		{"array", `[{"model":"a"}]`, ""},
		{"empty", ``, ""},
		{"no JSON", `busy`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := MadeBy([]byte(tt.in)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
