// Package weir_test guards the shape of the repository: which folder may
// import which, what the pure packages never contain, and how large things
// may grow. It reads sources and asks the go command; it runs nothing else.
package weir_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module   = "weir"
	maxLines = 999 // a longer file has more than one duty
)

// mayImport is the import diagram of ARCHITECTURE.md: for each top folder, the
// other top folders it may import. Tests follow the same arrows.
var mayImport = map[string][]string{
	"model":      {},
	"events":     {"model"},
	"sim":        {"events", "model"},
	"controller": {"events", "model"},
	"agent":      {"events", "model"},
	"cmd":        {"controller", "agent", "sim", "events", "model"},
}

// impure lists, for each pure folder, what its packages never import, tests
// excepted; everything below a listed path is meant too.
var impure = map[string][]string{
	"model": {"context", "crypto/rand", "log", "net", "os", "sync", "syscall", "unsafe"},
	"sim":   {"crypto/rand", "github.com/cockroachdb/pebble", "github.com/nats-io", "net", "os", "sync", "syscall"},
}

// pkg is the part of `go list -json` these tests read.
type pkg struct {
	ImportPath, Name, Dir              string
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
}

func TestPackages(t *testing.T) {
	checks := map[string]func(*testing.T, pkg){
		"arrows":  checkArrows,
		"purity":  checkPurity,
		"comment": checkComment,
		"testing": checkTesting,
	}
	packages := listPackages(t)
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		t.Run(name, func(t *testing.T) {
			for _, p := range packages {
				checks[name](t, p)
			}
		})
	}
}

func checkArrows(t *testing.T, p pkg) {
	from := folder(p.ImportPath)
	if from == "" {
		return
	}
	for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
		if to := folder(imp); to != "" && to != from && !slices.Contains(mayImport[from], to) {
			t.Errorf("%s imports %s; %s may import only %v", p.ImportPath, imp, from, mayImport[from])
		}
	}
}

func checkPurity(t *testing.T, p pkg) {
	from := folder(p.ImportPath)
	for _, imp := range p.Imports {
		if from == "model" && folder(imp) == "" && !standard(imp) {
			t.Errorf("%s imports %s; model imports only the standard library", p.ImportPath, imp)
		}
		if _, pure := impure[from]; pure && imp == "math/rand" {
			t.Errorf("%s imports math/rand; draw from a *rand.Rand of math/rand/v2", p.ImportPath)
		}
		for _, banned := range impure[from] {
			if imp == banned || strings.HasPrefix(imp, banned+"/") {
				t.Errorf("%s imports %s; %s has no %s", p.ImportPath, imp, from, banned)
			}
		}
	}
}

// checkComment wants one package comment, since that is where a package's
// contract stands.
func checkComment(t *testing.T, p pkg) {
	if len(p.GoFiles) == 0 {
		return // the root holds only this test
	}
	var found []string
	for _, name := range p.GoFiles {
		f := parse(t, filepath.Join(p.Dir, name), parser.PackageClauseOnly|parser.ParseComments)
		text := f.Doc.Text()
		if text == "" {
			continue
		}
		found = append(found, name)
		if want := []string{"Package", p.Name}; p.Name != "main" && !slices.Equal(strings.Fields(text)[:2], want) {
			t.Errorf("%s: package comment in %s does not start with %v", p.ImportPath, name, want)
		}
	}
	if len(found) != 1 {
		t.Errorf("%s has %d package comments %v, want 1", p.ImportPath, len(found), found)
	}
}

// checkTesting keeps the testing package out of the binary: helpers for the
// tests of others stand in packages of their own.
func checkTesting(t *testing.T, p pkg) {
	if !strings.HasSuffix(p.Name, "test") && slices.Contains(p.Imports, "testing") {
		t.Errorf("%s imports testing; move the helper to a package whose name ends in test", p.ImportPath)
	}
	for _, imp := range p.Imports {
		if folder(imp) != "" && strings.HasSuffix(imp, "test") && !strings.HasSuffix(p.Name, "test") {
			t.Errorf("%s imports %s outside its tests", p.ImportPath, imp)
		}
	}
}

// TestPureFoldersAreSingleThreaded keeps goroutines and channels, in any
// spelling, out of the fold and the simulator.
func TestPureFoldersAreSingleThreaded(t *testing.T) {
	for dir := range impure {
		for _, file := range goFiles(t, dir) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if n != nil && concurrent(n) {
					t.Errorf("%s: %s has no goroutines or channels", fset.Position(n.Pos()), dir)
				}
				return true
			})
		}
	}
}

func concurrent(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		return true
	case *ast.UnaryExpr:
		return n.Op == token.ARROW
	}
	return false
}

func TestTopFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	ignored := gitIgnored(t)
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || strings.HasPrefix(name, ".") || slices.Contains(ignored, name) {
			continue
		}
		if _, ok := mayImport[name]; !ok {
			t.Errorf("folder %s at the top; want only %v", name, slices.Sorted(maps.Keys(mayImport)))
		}
	}
}

func TestFileLength(t *testing.T) {
	for _, file := range goFiles(t, ".") {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(src, []byte("\n")); n > maxLines && !ast.IsGenerated(parse(t, file, parser.ParseComments)) {
			t.Errorf("%s has %d lines, want at most %d: split it by duty", file, n, maxLines)
		}
	}
}

// TestModFiles keeps the module buildable from anywhere: no replaced modules,
// no pinned toolchain, and the linters' requirements apart from our own.
func TestModFiles(t *testing.T) {
	for _, file := range []string{"go.mod", "tools.mod"} {
		var mod struct {
			Toolchain string
			Replace   []any
			Tool      []any
		}
		if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json", file), &mod); err != nil {
			t.Fatal(err)
		}
		if len(mod.Replace) > 0 || mod.Toolchain != "" {
			t.Errorf("%s: replace %v, toolchain %q; want neither", file, mod.Replace, mod.Toolchain)
		}
		if wantTools := file == "tools.mod"; len(mod.Tool) > 0 != wantTools {
			t.Errorf("%s has %d tools; they belong in tools.mod", file, len(mod.Tool))
		}
	}
}

// TestPeersFollow holds peers.mod, a copy of go.mod with the modules that the
// library is measured beside, to go.mod: else task bench-peers stops building,
// or measures another build than the one that ships.
func TestPeersFollow(t *testing.T) {
	newer := map[string]string{"golang.org/x/sync": "v0.25.0"} // asked for by a peer
	have := requirements(t, "peers.mod")
	for path, version := range requirements(t, "go.mod") {
		want := cmp.Or(newer[path], version)
		if have[path] != want {
			t.Errorf("peers.mod has %s %s, want %s: go get -modfile=peers.mod %[1]s@%[3]s", path, cmp.Or(have[path], "not at all"), want)
		}
	}
	sums, err := os.ReadFile("peers.sum")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Collect(strings.Lines(string(sums)))
	for line := range strings.Lines(string(own)) {
		if !slices.Contains(known, line) {
			t.Errorf("peers.sum lacks %s", line)
		}
	}
}

// requirements lists the versions that a module file requires, by path.
func requirements(t *testing.T, file string) map[string]string {
	t.Helper()
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(goCommand(t, "mod", "edit", "-json", file), &mod); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range mod.Require {
		all[r.Path] = r.Version
	}
	return all
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	fields := "-json=ImportPath,Name,Dir,GoFiles,Imports,TestImports,XTestImports"
	dec := json.NewDecoder(bytes.NewReader(goCommand(t, "list", fields, "./...")))
	var packages []pkg
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.Command("go", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// goFiles returns the Go files under dir that belong to the module.
func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ".go") {
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func parse(t *testing.T, file string, mode parser.Mode) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// gitIgnored returns the top-level names that .gitignore keeps out.
func gitIgnored(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(".gitignore")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name := strings.Trim(strings.TrimSpace(line), "/"); name != "" {
			names = append(names, path.Clean(name))
		}
	}
	return names
}

// folder returns the top folder of a package of this module, or "".
func folder(importPath string) string {
	rest, ok := strings.CutPrefix(importPath, module+"/")
	if !ok {
		return ""
	}
	top, _, _ := strings.Cut(rest, "/")
	return top
}

// standard reports whether importPath is of the standard library, whose paths
// have no dot in the first element.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
