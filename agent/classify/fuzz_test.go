package classify

import (
	"net/http"
	"testing"
	"time"

	"weir/model"
)

func checkVerdict(t *testing.T, v Verdict) {
	t.Helper()
	if v.Class < model.ClassOK || v.Class > model.ClassCanceled || v.Rule == "" {
		t.Errorf("class %d by rule %q", v.Class, v.Rule)
	}
	if v.Code != cleanCode(v.Code) || len(v.Hints) > maxHints {
		t.Errorf("code %q, %d hints", v.Code, len(v.Hints))
	}
	if v.RetryAfter < unsaid || v.RetryAfter > maxWait {
		t.Errorf("wait of %v", v.RetryAfter)
	}
	u := v.Usage
	if u.In < 0 || u.Out < 0 || u.Cached < 0 || u.Cached > u.In || !u.Known && u != (Usage{}) {
		t.Errorf("usage %+v", u)
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(uint16(429), "Retry-After", "3", "minimax", []byte(`{"error":{"message":"{'error': {'code': '429'}} try again in 3s"}}`), "")
	f.Add(uint16(200), "Content-Encoding", "gzip", "", []byte("\x1f\x8b\x08\x00"), "")
	f.Add(uint16(200), "Ratelimit", `"a";r=0;t=5`, "", []byte(`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`), "")
	f.Add(uint16(503), "X-Ratelimit-Reset", "1767225600", "", []byte(`<html><title>busy</title><script>x`), "EOF")
	f.Add(uint16(0), "", "", "", []byte(nil), "refused")
	c, err := New()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status uint16, name, value, provider string, body []byte, trouble string) {
		a := Answer{Status: int(status), Header: http.Header{}, Provider: provider, Body: body, TransportError: trouble, Now: time.Unix(1767225600, 0)}
		a.Header.Set(name, value)
		v := c.Classify(a)
		checkVerdict(t, v)
		if again := c.Classify(a); again.Rule != v.Rule || again.RetryAfter != v.RetryAfter {
			t.Errorf("judged %s, then %s", v.Rule, again.Rule)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add(uint16(200), []byte("event: error\ndata: {\"type\":\"error\"}\n\ndata: [DONE]\n\n"), uint8(3))
	f.Add(uint16(200), []byte("{\"done\":false}\n{\"error\":\"x\"}\n"), uint8(1))
	f.Add(uint16(200), []byte("data: {\"a\":1}\n\n{\n\"error\": {}\n}\n"), uint8(200))
	f.Add(uint16(500), []byte("data: x"), uint8(2))
	c, err := New()
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1767225600, 0)
	f.Fuzz(func(t *testing.T, status uint16, body []byte, size uint8) {
		a := Answer{Status: int(status), Header: http.Header{}}
		whole, pieces := c.Stream(a), c.Stream(a)
		_, _ = whole.Write(body)
		for b := body; len(b) > 0; {
			n := min(int(size)+1, len(b))
			_, _ = pieces.Write(b[:n])
			b = b[n:]
		}
		v, w := whole.Close(now, ""), pieces.Close(now, "")
		checkVerdict(t, v)
		if v.Class != w.Class || v.Rule != w.Rule || v.Usage != w.Usage || whole.Content() != pieces.Content() {
			t.Errorf("as a whole %s %+v, in pieces %s %+v", v.Rule, v.Usage, w.Rule, w.Usage)
		}
	})
}

// FuzzTable reads a table of rules that somebody wrote. One that is taken
// judges like any other; one that is not is told why.
func FuzzTable(f *testing.F) {
	f.Add([]byte("rules:\n  - name: busy\n    when: {status: 429, body: busy}\n    class: overloaded\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := New(Table{Name: "mine.yaml", Data: data})
		if err != nil {
			if err.Error() == "" {
				t.Error("no reason")
			}
			return
		}
		checkVerdict(t, c.Classify(Answer{Status: 429, Header: http.Header{}, Body: []byte(`{"error":{"message":"busy"}}`), Now: time.Unix(1767225600, 0)}))
	})
}
