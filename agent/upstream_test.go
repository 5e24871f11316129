package agent

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/agent/dialect"
)

func TestTargetChecks(t *testing.T) {
	t.Setenv("WEIR_TEST_EMPTY", " ")
	for _, u := range []Upstream{
		{},
		{BaseURL: "ftp://x/v1"},
		{BaseURL: "https:///v1"},
		{BaseURL: "https://user:secret@x/v1"},
		{BaseURL: "https://x/v1?key=secret"},
		{BaseURL: "https://x/v1", KeyEnv: "A", KeyFile: "b"},
		{BaseURL: "https://x/v1", KeyEnv: "WEIR_TEST_EMPTY"},
		{BaseURL: "https://x/v1", KeyFile: filepath.Join(t.TempDir(), "none")},
	} {
		_, err := newTarget(u)
		if err == nil {
			t.Errorf("%+v is taken", u)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

func TestTargetURL(t *testing.T) {
	target, err := newTarget(Upstream{BaseURL: "https://provider.example/openai/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	query := upstreamQuery("api-version=1&key=mine&Access_Token=x")
	if got, want := target.url("/v1/chat/completions", query).String(), "https://provider.example/openai/v1/chat/completions?api-version=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKeyIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	target, err := newTarget(Upstream{BaseURL: "http://x/v1", KeyFile: file})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	at := func(d time.Duration, dial dialect.Dialect) http.Header {
		h := http.Header{}
		target.authorize(h, dial, now.Add(d))
		return h
	}
	if got := at(0, dialect.Chat).Get("Authorization"); got != "Bearer first" {
		t.Errorf("got %q", got)
	}
	write("the second\n")
	if got := at(keyCheck, dialect.Messages); got.Get("X-Api-Key") != "the second" || got.Get("Authorization") != "" {
		t.Errorf("got %v", got)
	}
	write("two\nlines")
	if got := at(2*keyCheck, dialect.Chat).Get("Authorization"); got != "Bearer the second" {
		t.Errorf("a spoilt file changed the key to %q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := at(3*keyCheck, dialect.Chat).Get("Authorization"); got != "Bearer the second" {
		t.Errorf("a missing file changed the key to %q", got)
	}
	if text := fmt.Sprintf("%v %+v", target.Upstream, target.base); strings.Contains(text, "second") {
		t.Errorf("printing an upstream shows its key: %s", text)
	}
}

func TestHeaders(t *testing.T) {
	in := http.Header{
		"Accept": {"*/*"}, "Accept-Encoding": {"br"}, "Anthropic-Version": {"2023-06-01"}, "Api-Key": {"k"}, "Authorization": {"Bearer mine"},
		"Connection": {"close, X-Hop"}, "Content-Type": {"application/json"}, "Cookie": {"s=1"}, "Idempotency-Key": {"i"},
		"Openai-Organization": {"org"}, "Proxy-Authorization": {"p"}, "Transfer-Encoding": {"chunked"}, "X-Api-Key": {"mine"},
		"X-Forwarded-For": {"10.0.0.1"}, "X-Hop": {"1"}, "X-Weir-Tenant": {"t"}, "X-Stainless-Lang": {"go"},
	}
	want := http.Header{
		"Accept": {"*/*"}, "Anthropic-Version": {"2023-06-01"}, "Content-Type": {"application/json"}, "idempotency-key": {"i"}, "X-Stainless-Lang": {"go"},
	}
	if diff := cmp.Diff(want, upstreamHeader(in)); diff != "" {
		t.Error(diff)
	}
	in = http.Header{
		"Content-Type": {"text/event-stream"}, "Set-Cookie": {"a"}, "Location": {"http://elsewhere"}, "X-Request-Id": {"r"},
		"X-Ratelimit-Remaining-Requests": {"3"}, "X-Weir-Channel": {"spoofed"}, "Keep-Alive": {"5"}, "X-Should-Retry": {"true"}, "Content-Length": {"9"},
	}
	want = http.Header{"Content-Type": {"text/event-stream"}, "X-Request-Id": {"r"}, "X-Ratelimit-Remaining-Requests": {"3"}}
	if diff := cmp.Diff(want, clientHeader(in)); diff != "" {
		t.Error(diff)
	}
}
