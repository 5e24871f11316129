package config

import (
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/goccy/go-yaml/ast"

	"weir/agent/proxy"
	"weir/model"
	"weir/sim/strict"
)

// ParseKeys reads the clients of a sidecar: for each the SHA-256 of its key in
// hex, its tenant and the highest priority it may ask for.
//
//	clients:
//	  - {name: summaries, sha256: 64 HEX DIGITS, tenant: content, priority: batch}
//
// Without a tenant the client says itself whom a call counts for; without a
// priority it may ask for normal. The error is a *strict.ParseError with every
// fault, or what reading gave; a file without clients is a fault, since it
// would lock everybody out.
func ParseKeys(name string, in io.Reader) (proxy.Keys, error) {
	doc, body, err := strict.Document(name, in)
	if err != nil {
		return nil, err
	}
	r := &keyReader{Reader: doc, keys: proxy.Keys{}}
	f := r.Mapping(body, "")
	if f != nil {
		f.Need("clients")
		f.List("clients", r.client)
		if seq, ok := f.Get("clients").(*ast.SequenceNode); ok && len(seq.Values) == 0 {
			r.Fault(seq, "clients: must not be empty")
		}
		f.Done()
		r.Names(f, "clients")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return r.keys, nil
}

type keyReader struct {
	*strict.Reader
	keys proxy.Keys
}

func (r *keyReader) client(n ast.Node, path string) {
	f := r.Mapping(n, path)
	if f == nil {
		return
	}
	var c proxy.Client
	var name string
	f.Need("name")
	f.Name("name", &name)
	f.Name("tenant", &c.Tenant)
	c.Priority = priority(f, model.PriorityNormal)
	if n := f.Key("key"); n != nil {
		f.Get("key")
		r.Fault(n, "%s: a secret does not belong in this file; write its SHA-256 as sha256", f.Sub("key"))
	} else {
		f.Need("sha256")
	}
	if sum, ok := r.sum(f); ok {
		if _, twice := r.keys[sum]; twice {
			r.Fault(f.Key("sha256"), "%s: two clients have the same key", f.Sub("sha256"))
		}
		r.keys[sum] = c
	}
	f.Done()
}

// sum reads a hash. What is none is not shown: it may be the key itself.
func (r *keyReader) sum(f *strict.Fields) (sum [sha256.Size]byte, ok bool) {
	n := f.Get("sha256")
	if n == nil {
		return sum, false
	}
	b, err := hex.DecodeString(n.GetToken().Value)
	if err != nil || len(b) != len(sum) {
		r.Fault(n, "%s: must be the SHA-256 of the key in %d hex digits", f.Sub("sha256"), 2*len(sum))
		return sum, false
	}
	return [sha256.Size]byte(b), true
}
