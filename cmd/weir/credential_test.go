package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInit holds that what init writes is good, and that it keeps what is there.
func TestInit(t *testing.T) {
	t.Setenv("WEIR_TOKEN", "")
	dir := filepath.Join(t.TempDir(), "new")
	if got := weir(t, "", "init", dir); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	if got := weir(t, "", "config", "check", filepath.Join(dir, "weir.yaml")); got.code != exitOK || !strings.Contains(got.stdout, "1 channels") {
		t.Errorf("the example: %+v", got)
	}
	token := read1(t, filepath.Join(dir, "weir-data/credentials/token"))
	key := read1(t, filepath.Join(dir, "weir-data/credentials/agents.nk"))
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte("mode: enforce\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := weir(t, "", "init", dir); got.code != exitOK || !strings.Contains(got.stdout, "stays as it is") {
		t.Errorf("again: %+v", got)
	}
	if read1(t, filepath.Join(dir, "weir.yaml")) != "mode: enforce\n" || read1(t, filepath.Join(dir, "weir-data/credentials/token")) != token ||
		read1(t, filepath.Join(dir, "weir-data/credentials/agents.nk")) != key {
		t.Error("a second init changed something")
	}
}

// TestCredentials lets one agent in from a folder of its own, under the name of
// its credential, and shuts it out, while a controller runs.
func TestCredentials(t *testing.T) {
	if testing.Short() {
		t.Skip("left out under -short, to keep the race detector within its time; a whole run has it")
	}
	w := newTrouble(t)
	t.Setenv("WEIR_TOKEN", "")
	ctl := start(t, w.dir, "controller")
	ctl.said("controller runs")
	if got := w.run("credential", "list"); got.code != exitOK || strings.Count(got.stdout, "\n") != 3 {
		t.Errorf("a new book: %+v", got)
	}
	added := w.run("credential", "add", "web-1")
	if added.code != exitOK {
		t.Fatal(added.stderr)
	}
	ctl.said("credentials are taken")

	other := t.TempDir()
	move(t, filepath.Join(w.dir, strings.TrimSpace(added.stdout)), filepath.Join(other, "web-1.nk"))
	move(t, filepath.Join(w.dir, "weir.yaml"), filepath.Join(other, "weir.yaml"))
	nobody := start(t, other, "agent")
	nobody.said("it does not let this process in")
	ctl.said("was not let in")
	if err := os.MkdirAll(filepath.Join(other, "weir-data/credentials"), 0o700); err != nil {
		t.Fatal(err)
	}
	move(t, filepath.Join(w.dir, "weir-data/credentials/agents.nk"), filepath.Join(other, "weir-data/credentials/agents.nk"))
	nobody.said("connected to nats") // it came later, and was looked for again
	nobody.kill()
	text := strings.Replace(read1(t, filepath.Join(other, "weir.yaml")), "nats: {", "nats: {credential_file: web-1.nk, ", 1)
	if err := os.WriteFile(filepath.Join(other, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := start(t, other, "agent", "--id", "web-2").end(); got.code != exitUsage || !strings.Contains(got.stderr, "it cannot report as web-2") {
		t.Errorf("another's name: %+v", got)
	}
	agent := start(t, other, "agent")
	agent.said("agent=web-1")
	agent.said("connected to nats")

	if got := w.run("credential", "add", "web-1"); got.code != exitUsage || !strings.Contains(got.stderr, "revoke it first") {
		t.Errorf("a second of its name: %+v", got)
	}
	if got := w.run("credential", "revoke", "web-1"); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	agent.said("trouble with nats")
	if got := w.run("credential", "revoke", "web-1"); got.code != exitUsage {
		t.Errorf("revoked twice: %+v", got)
	}
	if added = w.run("credential", "add", "web-1"); added.code != exitOK {
		t.Fatal(added.stderr)
	}
	move(t, filepath.Join(w.dir, strings.TrimSpace(added.stdout)), filepath.Join(other, "web-1.nk"))
	agent.said("connected to nats again") // with the new key
	for _, p := range []*process{agent, ctl} {
		if got := p.stop(); got.code != exitOK {
			t.Errorf("%s: exit code %d", p.name, got.code)
		}
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestTokenFile holds that orders on the controller's machine need nothing set,
// and that its token is shown to no other machine.
func TestTokenFile(t *testing.T) {
	t.Setenv("WEIR_TOKEN", "")
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{"http://127.0.0.1:1": "s3cret", "http://localhost:1": "s3cret", "http://[::1]:1": "s3cret", "http://10.0.0.5:8080": "", "https://weir.example": ""} {
		a, err := apiFlags{URL: url, TokenFile: path}.api()
		if err != nil || a.token != want {
			t.Errorf("%s: token %q, %v", url, a.token, err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (apiFlags{URL: "http://127.0.0.1:1", TokenFile: path}).api(); err == nil || !strings.Contains(err.Error(), "0644") {
		t.Errorf("a token that others may read: %v", err)
	}
	if err := os.WriteFile(path, []byte("two words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readToken(path); err == nil {
		t.Error("two words are a token")
	}
}

// TestOrdersWithoutSetting pauses a channel with the token the controller made.
func TestOrdersWithoutSetting(t *testing.T) {
	w := newTrouble(t)
	t.Setenv("WEIR_TOKEN", "")
	address := freeAddress(t)
	ctl := start(t, w.dir, "controller", "--listen", address)
	ctl.said("controller runs")
	deadline := time.Now().Add(patience)
	for {
		got := w.run("channel", "pause", "main", "--for", "1m", "--why", "test", "--url", "http://"+address)
		if got.code == exitOK {
			break
		}
		early := strings.Contains(got.stderr, "there is no channel") // the configuration is not folded yet
		if got.code == exitUsage && !early || time.Now().After(deadline) {
			t.Fatal(got.stderr)
		}
	}
}
