package proxy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/agent"
)

// block is a piece of code in the guides and its language.
type block struct{ language, code string }

// guideBlocks returns the code under the guides' heading on SDKs.
func guideBlocks(t *testing.T) (all []block) {
	t.Helper()
	const heading = "Point your SDK at it"
	for _, guide := range []string{"README.md", "INTEGRATING.md"} {
		text, err := os.ReadFile("../../" + guide)
		if err != nil {
			t.Fatal(err)
		}
		_, section, ok := strings.Cut(string(text), "## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !ok {
			t.Fatalf("%s has no section %q", guide, heading)
		}
		for i, part := range strings.Split("\n"+section, "\n```") {
			if language, code, _ := strings.Cut(part, "\n"); i%2 == 1 {
				all = append(all, block{language, code + "\n"})
			}
		}
	}
	return all
}

// tool says how a language's block is run; missing is what the machine lacks.
func tool(t *testing.T, b block) (file string, command []string, folder, missing string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "block")
	have := func(name string, probe ...string) bool {
		_, err := exec.LookPath(name)
		return err == nil && (len(probe) == 0 || exec.Command(name, probe...).Run() == nil)
	}
	switch b.language {
	case "python":
		for _, python := range []string{nodeFolder + "/venv/bin/python", "python3"} {
			if have(python, "-c", "import openai") {
				return file, []string{python, file}, "", ""
			}
		}
		return "", nil, "", "openai for Python: " + nodeFolder + "/requirements.txt says which"
	case "js":
		if _, err := os.Stat(nodeFolder + "/node_modules/@anthropic-ai"); err != nil || !have("node") {
			return "", nil, "", "node with the SDKs in cmd/weir/sdktest"
		}
		return "", []string{"node", "--input-type=module", "-e", b.code}, nodeFolder, ""
	case "go":
		return file + ".go", []string{"go", "run", file + ".go"}, "", ""
	case "sh":
		if !have("curl") {
			return "", nil, "", "curl"
		}
		return file, []string{"sh", file}, "", ""
	}
	t.Fatalf("a block in %q, which no test runs", b.language)
	return "", nil, "", ""
}

// TestReadme runs what README and INTEGRATING say about SDKs, as it stands there
// but for the address, against a provider that answers "hi".
func TestReadme(t *testing.T) {
	blocks := guideBlocks(t)
	if len(blocks) != 5 {
		t.Fatalf("the guides have %d blocks", len(blocks))
	}
	p := newPrompted(t)
	w := newWorld(t, p.serve, func(c *agent.Config) {
		c.Fleet.Channels[0].Provider = ""
		c.Fleet.Routes[0].Name = "gpt-5"
	})
	for _, b := range blocks {
		t.Run(b.language, func(t *testing.T) {
			if !strings.Contains(b.code, "http://127.0.0.1:8787") {
				t.Error("the block names no sidecar")
			}
			b.code = strings.ReplaceAll(b.code, "http://127.0.0.1:8787", w.server.URL)
			file, command, folder, missing := tool(t, b)
			if missing != "" {
				t.Skipf("this machine has no %s", missing)
			}
			if file != "" {
				if err := os.WriteFile(file, []byte(b.code), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, command[0], command[1:]...)
			cmd.Dir = folder
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "hi") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for _, s := range w.got() {
		if s.header.Get("Authorization") != "Bearer "+providerKey && s.header.Get("X-Api-Key") != providerKey {
			t.Errorf("%s was called with %v", s.path, s.header)
		}
	}
}
