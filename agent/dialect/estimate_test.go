package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/model"
)

func TestEstimate(t *testing.T) {
	english := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100)
	chinese := strings.Repeat("服务器集群负载过高请稍后再试", 100)
	russian := strings.Repeat("Съешь ещё этих мягких булок ", 100)
	picture := "data:image/png;base64," + strings.Repeat("iVBORw0KGgo+/AAA", 20_000)
	for _, tt := range []struct {
		name, text string
		low, high  model.Tokens
	}{
		{"empty", "", 1, 1},
		{"english", english, 1000, 1200},
		{"chinese", chinese, 900, 1200},
		{"russian", russian, 1000, 1400},
		{"picture", picture, 900, 1100},
	} {
		if got := Estimate([]byte(tt.text)); got < tt.low || got > tt.high {
			t.Errorf("%s: %d tokens, want %d..%d", tt.name, got, tt.low, tt.high)
		}
	}
	escaped := strings.NewReplacer("服", `\u670d`, "务", `\u52a1`).Replace("服务服务服务服务")
	if got, want := Estimate([]byte(escaped)), Estimate([]byte("服务服务服务服务")); got != want {
		t.Errorf("escaped text is %d tokens, plain %d", got, want)
	}
}

func FuzzEstimate(f *testing.F) {
	f.Add([]byte(`\u`))
	f.Add([]byte("\xff\\"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got := Estimate(raw); got < 1 || got > model.Tokens(2*len(raw)+1) {
			t.Fatalf("Estimate(%q) = %d", raw, got)
		}
	})
}

func BenchmarkParseBody(b *testing.B) {
	text, err := json.Marshal(strings.Repeat("The quick brown fox. 服务器集群负载. ", 1000))
	if err != nil {
		b.Fatal(err)
	}
	raw := []byte(`{"model":"m","messages":[{"role":"user","content":` + string(text) + `}]}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := ParseBody(raw); err != nil {
			b.Fatal(err)
		}
	}
}
