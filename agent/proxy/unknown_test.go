package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/agent"
	"weir/agent/classify"
)

// kept reads the lines of a file of unknown refusals.
func kept(t *testing.T, path string) (lines []struct {
	Body string
	Seen int
}, text string,
) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var one struct {
			Body string
			Seen int
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, one)
	}
	return lines, string(data)
}

// TestUnknownRefusals holds that what no rule knows is kept where that is
// wished, each kind once, bounded, with nothing of the request and no key; and
// that what a rule knows is not.
func TestUnknownRefusals(t *testing.T) {
	const secret = "my aunt keeps penguins in the cellar"
	path := filepath.Join(t.TempDir(), "deep", "unknown.jsonl")
	answers := []struct {
		status int
		body   string
	}{
		{418, `{"fault":{"flavour":"teapot","text":"wibble 17: ` + secret + ` is odd, key ` + providerKey + `, mail jo@example.com"}}`},
		{418, `{"fault":{"flavour":"teapot","text":"wibble 18: ` + secret + ` is odd, key ` + providerKey + `, mail jo@example.com"}}`},
		{429, `{"error":{"code":"rate_limit_exceeded"}}`},
		{409, `{"fault":"` + strings.Repeat("flurb ", 5000) + `"}`},
		{409, "\x00\x01\x02binary"},
		{200, goodAnswer},
	}
	w := newWorld(t, func(n int, w http.ResponseWriter, _ *http.Request) { say(w, answers[n-1].status, answers[n-1].body) }, func(c *agent.Config) {
		c.Unknown = path
		c.Fleet.Retry.MaxAttempts = 1
		c.Fleet.Channels[0].Provider = "nobody"
		c.Fleet.Channels[0].Alone = 100
	})
	for range answers {
		w.post("/v1/chat/completions", `{"model":"route","messages":[{"role":"user","content":"`+secret+`"}]}`, "X-Weir-Deadline-Ms", "5000")
		time.Sleep(20 * time.Millisecond)
	}
	w.close()
	lines, text := kept(t, path)
	for _, word := range []string{"aunt", "penguin", "cellar", providerKey, "client-key", "jo@example.com"} {
		if strings.Contains(text, word) {
			t.Errorf("%q is on disk: %s", word, text)
		}
	}
	if len(lines) != 3 || lines[0].Seen != 2 || !strings.Contains(lines[0].Body, `"flavour":"teapot"`) || !strings.Contains(lines[0].Body, "wibble 18") {
		t.Errorf("kept %+v", lines)
	}
	for _, l := range lines {
		if len(l.Body) > classify.MaxKept {
			t.Errorf("%d bytes are kept of one", len(l.Body))
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info, err)
	}
	rules, err := classify.New(classify.Table{Name: "mine.yaml", Data: []byte("version: 1\nfamily: mine\nrules: [{name: tea, words: [wibble], class: overloaded}]\n")})
	if err != nil {
		t.Fatal(err)
	}
	var still strings.Builder
	if err := classify.Unknown(strings.NewReader(text), &still, rules); err != nil || strings.Contains(still.String(), "teapot") || !strings.Contains(still.String(), "flurb") {
		t.Errorf("still unknown: %s, %v", still.String(), err)
	}
}

// TestUnknownRefusalsAreBounded holds that the file keeps the latest kinds, over
// restarts.
func TestUnknownRefusalsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unknown.jsonl")
	var old strings.Builder
	for i := range 300 {
		fmt.Fprintf(&old, `{"id":"%d","http_status":418,"body":"%s","seen":1}`+"\n", i, strings.Repeat("x", i+1))
	}
	if err := os.WriteFile(path, []byte(old.String()+"no line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, refusing(418, `{"fault":"novel"}`), func(c *agent.Config) {
		c.Unknown = path
		c.Fleet.Retry.MaxAttempts = 1
	})
	w.post("/v1/chat/completions", plainBody)
	w.close()
	lines, _ := kept(t, path)
	if len(lines) != 256 || !strings.Contains(lines[255].Body, "novel") {
		t.Errorf("%d are kept, the last %+v", len(lines), lines[len(lines)-1])
	}
}
