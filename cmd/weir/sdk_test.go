package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// stages takes a fleet through its controller's life and calls at each stage:
// while it is up, after it was killed, with the lease that the agent had and
// without it, and after it is back.
func stages(t *testing.T, f *fleet, call func(t *testing.T)) {
	f.weir("params", "push", file(t, "p.yaml", "params: {lease_duration: 2s}"), "--why", "a test that waits for a lease's end")
	t.Run("up", call)
	f.controller.kill()
	t.Run("killed", call)
	f.sidecar.until("work alone", func() bool { return f.alone() })
	t.Run("alone", call)
	f.startController()
	t.Run("back", call)
	f.sidecar.until("be led again", func() bool { return !f.alone() })
	t.Run("led again", call)
}

// alone asks the sidecar whether it works without a lease.
func (f *fleet) alone() bool {
	resp, err := http.Get("http://" + f.agent + "/weir/queue")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var page struct{ Alone bool }
	return json.NewDecoder(resp.Body).Decode(&page) == nil && page.Alone
}

// attempts is how many answers of the provider the controller knows of.
func (f *fleet) attempts() uint64 {
	var s struct {
		Channels []struct{ Attempts map[string]uint64 }
	}
	if err := json.Unmarshal([]byte(f.weir("status", "--json").stdout), &s); err != nil {
		f.t.Fatal(err)
	}
	if len(s.Channels) != 1 {
		f.t.Fatalf("status shows %d channels", len(s.Channels))
	}
	return s.Channels[0].Attempts["ok"]
}

// TestGoSDK calls through the sidecar as an application does that uses the
// official SDK: nothing is changed but the base URL. What the controller knows
// in the end is every call, those included that were made without it.
func TestGoSDK(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	client := openai.NewClient(option.WithBaseURL(f.baseURL()), option.WithAPIKey("application-key"), option.WithMaxRetries(0))
	request := openai.ChatCompletionNewParams{
		Model:     "default",
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		MaxTokens: openai.Int(40),
	}
	const each = 3
	calls := uint64(0)
	stages(t, f, func(t *testing.T) {
		for range each {
			whole, err := client.Chat.Completions.New(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if whole.Usage.CompletionTokens != 40 || whole.Choices[0].Message.Content == "" {
				t.Errorf("got %+v", whole)
			}
			stream := client.Chat.Completions.NewStreaming(t.Context(), request)
			var text strings.Builder
			chunks := 0
			for stream.Next() {
				chunks++
				for _, c := range stream.Current().Choices {
					text.WriteString(c.Delta.Content)
				}
			}
			if err := stream.Err(); err != nil || chunks < 3 {
				t.Fatalf("%d chunks, %v", chunks, err)
			}
			if text.String() != whole.Choices[0].Message.Content {
				t.Errorf("streamed %q, whole %q", text.String(), whole.Choices[0].Message.Content)
			}
			calls += 2
		}
	})
	f.controller.until("know every call", func() bool { return f.attempts() == calls })
	f.operate()
	if got := f.sidecar.stop(); got.code != exitOK {
		t.Errorf("the sidecar ends with code %d", got.code)
	}
	f.controller.until("see the agent leave", func() bool { return strings.Contains(f.weir("status", "--json").stdout, `"state":"left"`) })
	if got := f.controller.stop(); got.code != exitOK {
		t.Errorf("the controller ends with code %d", got.code)
	}
	f.audit(calls)
}

// operate gives orders and looks what came of them.
func (f *fleet) operate() {
	f.t.Helper()
	f.weir("channel", "pause", "main", "--for", "1h", "--why", "maintenance")
	if got := f.weir("status"); !strings.Contains(got.stdout, "main") || !strings.Contains(got.stdout, "paused") {
		f.t.Errorf("a paused channel shows as\n%s", got.stdout)
	}
	f.weir("channel", "resume", "main")
	f.weir("channel", "set", "main", "--weight", "0.5", "--limit", "7", "--mode", "observe")
	if got := f.weir("status"); !strings.Contains(got.stdout, "observe") || !strings.Contains(got.stdout, "0.50") {
		f.t.Errorf("a changed channel shows as\n%s", got.stdout)
	}
	var set struct{ Params map[string]int64 }
	if err := json.Unmarshal([]byte(f.weir("params", "show").stdout), &set); err != nil || set.Params["lease_duration"] != 2e9 {
		f.t.Errorf("parameters in force: %v, %v", set.Params, err)
	}
	f.weir("config", "push", f.dir+"/weir.yaml")
	weir(f.t, "", "channel", "pause", "nobody", f.url()).wantFaults(f.t, `there is no channel "nobody"`)
	f.wantToken()
	tail := f.weir("log", "tail", "--no-wait", "--last", "1000", "-c", f.dir+"/weir.yaml").stdout
	for _, want := range []string{"lead term 1", "lead term 2", "config 1 channels", "command pause main", `"maintenance"`, "params p.yaml"} {
		if !strings.Contains(tail, want) {
			f.t.Errorf("the log has no %q:\n%s", want, tail)
		}
	}
}

// wantToken holds that an order with a wrong token is refused.
func (f *fleet) wantToken() {
	f.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.CommandContext(f.t.Context(), exe, "channel", "pause", "main", f.url())
	cmd.Env = append(os.Environ(), asProgram+"=1", "WEIR_TOKEN=wrong")
	if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), "token") {
		f.t.Errorf("an order with a wrong token: %v, %s", err, said)
	}
}

// audit takes the log of a fleet that is stopped to a file and to another
// fleet, and folds each.
func (f *fleet) audit(calls uint64) {
	f.t.Helper()
	store, journal := f.dir+"/weir-data", f.dir+"/journal.weir"
	verify := func(args ...string) (v verdict) {
		f.t.Helper()
		if err := json.Unmarshal([]byte(f.weir(append([]string{"log", "verify", "--json"}, args...)...).stdout), &v); err != nil {
			f.t.Fatal(err)
		}
		if !v.Verified || v.Attempts != calls || v.Decisions == 0 || v.Missing+v.Unreadable+v.Unknown > 0 {
			f.t.Errorf("verify %v: %+v", args, v)
		}
		return v
	}
	whole := verify("--store", store, "--fleet", "test")
	f.weir("log", "export", journal, "--store", store, "--fleet", "test")
	copied := verify(journal)
	if copied.Digest != whole.Digest || copied.DecisionDigest != whole.DecisionDigest || !copied.Complete {
		f.t.Errorf("the log folds to %+v, the journal to %+v", whole, copied)
	}
	f.weir("log", "import", journal, "--store", store, "--fleet", "other")
	tail := f.weir("log", "tail", "--no-wait", "--store", store, "--fleet", "other").stdout
	if !strings.Contains(tail, "attempts sidecar") {
		f.t.Errorf("the other fleet's log ends with\n%s", tail)
	}
	weir(f.t, "", "log", "import", journal, "--store", store, "--fleet", "other").wantFaults(f.t, "the journal begins at 1")
}

// TestJavaScriptSDK does the same with the official SDK for JavaScript.
func TestJavaScriptSDK(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node on this machine")
	}
	if _, err := os.Stat("sdktest/node_modules/openai"); err != nil {
		t.Skip("the SDK is not installed: npm ci --prefix cmd/weir/sdktest")
	}
	f := newFleet(t)
	call := func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), node, "calls.mjs", f.baseURL(), "default")
		cmd.Dir = "sdktest"
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		var got struct {
			Plain, Streamed string
			PlainTokens     int `json:"plain_tokens"`
			StreamedTokens  int `json:"streamed_tokens"`
			Chunks          int
			Models          []string
			Refused         struct {
				Status int
				Code   string
			}
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if got.Plain == "" || got.Plain != got.Streamed || got.PlainTokens != 40 || got.StreamedTokens != 40 || got.Chunks < 3 {
			t.Errorf("got %s", out)
		}
		if d := cmp.Diff([]string{"default"}, got.Models); d != "" || got.Refused.Status != http.StatusNotFound || got.Refused.Code != "model_not_found" {
			t.Errorf("models %v, an unknown one is refused with %+v", got.Models, got.Refused)
		}
	}
	t.Run("up", call)
	f.controller.kill()
	t.Run("killed", call)
	f.startController()
	t.Run("back", call)
}

// TestClientKeys holds that only known clients may call once there are keys,
// and that a changed file is taken without a restart.
func TestClientKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("left out under -short, to keep the race detector within its time; a whole run has it")
	}
	t.Parallel()
	f := newFleet(t)
	_ = f.sidecar.stop()
	keys := f.dir + "/clients.yaml"
	write := func(sum string) {
		if err := os.WriteFile(keys, []byte("clients: [{name: a, sha256: "+sum+"}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const known = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // of "secret"
	write(known)
	text, err := os.ReadFile(f.dir + "/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	withKeys := strings.Replace(string(text), "agent: {", "agent: {client_keys: clients.yaml, ", 1)
	if err := os.WriteFile(f.dir+"/weir.yaml", []byte(withKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	f.sidecar = start(t, f.dir, "agent", "--id", "sidecar", "--listen", strings.Replace(f.agent, "127.0.0.1", "0.0.0.0", 1))
	f.sidecar.said("connected to nats")
	status := func(key string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.baseURL()+"/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if status("secret") != http.StatusOK || status("other") != http.StatusUnauthorized {
		t.Errorf("known key %d, unknown %d", status("secret"), status("other"))
	}
	write("nonsense, and longer than before")
	f.sidecar.said("the old keys stay")
	if status("secret") != http.StatusOK {
		t.Error("a faulty file took the old keys away")
	}
	write("d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa") // of "other"
	f.sidecar.said("client keys are taken")
	if status("secret") != http.StatusUnauthorized || status("other") != http.StatusOK {
		t.Errorf("old key %d, new %d", status("secret"), status("other"))
	}
}
