package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"weir/controller/notice"
	"weir/sim/strict"
)

// Notice is one address that is told what goes wrong.
type Notice struct {
	// URLEnv names the environment variable with the address, URLFile the file
	// that holds it; one of them.
	URLEnv, URLFile string
	Shape           notice.Shape
	// Only restricts what is told; empty means everything.
	Only []notice.Kind
}

// Name is what the address is called in logs and metrics.
func (n *Notice) Name() string {
	if n.URLEnv != "" {
		return n.URLEnv
	}
	return n.URLFile
}

func (r *reader) notice(at ast.Node, path string) Notice {
	n := Notice{Shape: notice.Generic}
	f := r.Mapping(at, path)
	if f == nil {
		return n
	}
	r.secret(f, "url_env or url_file", "url", "token")
	r.variable(f, "url_env", &n.URLEnv)
	f.Text("url_file", &n.URLFile)
	if f.Has("url_env") == f.Has("url_file") && !f.Has("url") {
		r.Fault(f.Node(), "%s: needs either url_env or url_file, the address is a secret", path)
	}
	strict.Choose(f, "shape", &n.Shape, notice.Shapes()...)
	f.List("only", func(at ast.Node, path string) {
		kind := notice.Kind(r.Text(at, path))
		if !slices.Contains(notice.Kinds(), kind) {
			r.Fault(at, "%s: must be one of %v, got %q", path, notice.Kinds(), kind)
		}
		n.Only = append(n.Only, kind)
	})
	f.Done()
	return n
}
