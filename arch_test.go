// Package weir_test guards the shape of the repository: which folder may
// import which, what the pure packages never contain, and how large things
// may grow. It reads sources and asks the go command; it runs nothing.
package weir_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module   = "weir/"
	maxLines = 1000 // a file this long has more than one duty
)

// mayImport is the import diagram of ARCHITECTURE.md: for every top folder,
// the other top folders it may import. Test files follow the same arrows.
var mayImport = map[string][]string{
	"model":      {},
	"events":     {"model"},
	"sim":        {"events", "model"},
	"controller": {"events", "model"},
	"agent":      {"events", "model"},
	"cmd":        {"controller", "agent", "sim", "events", "model"},
}

// impure lists, per pure folder, the imports (with everything below them) its
// non-test files must not have.
var impure = map[string][]string{
	"model": {"context", "crypto/rand", "log", "math/rand", "net", "os", "sync", "syscall", "unsafe"},
	"sim":   {"crypto/rand", "math/rand", "net", "os", "sync", "syscall", "github.com/nats-io", "github.com/cockroachdb/pebble"},
}

// goPackage is the part of `go list -json` the tests look at.
type goPackage struct {
	ImportPath, Name                    string
	GoFiles, TestGoFiles, XTestGoFiles  []string
	Imports, TestImports, XTestImports  []string
	CgoFiles, IgnoredGoFiles, SFiles    []string
	Dir                                 string
	EmbedPatterns, TestEmbedPatterns    []string
	CompiledGoFiles, InvalidGoFiles     []string
}

func TestPackages(t *testing.T) {
	packages := listPackages(t)
	t.Run("arrows", func(t *testing.T) {
		for _, p := range packages {
			checkArrows(t, p)
		}
	})
	t.Run("purity", func(t *testing.T) {
		for _, p := range packages {
			checkImportsPure(t, p)
		}
	})
	t.Run("comment", func(t *testing.T) {
		for _, p := range packages {
			checkComment(t, p)
		}
	})
}
