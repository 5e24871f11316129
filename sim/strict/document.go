package strict

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxFile bounds a file, in bytes.
const MaxFile = 1 << 20

// maxNesting bounds recursion of the YAML parser on hostile input; a real
// file nests eight deep.
const maxNesting = 100

// Document reads the one YAML document in a file. name stands for the file in
// messages. The error is a *ParseError, or what reading gave.
func Document(name string, in io.Reader) (*Reader, ast.Node, error) {
	data, err := io.ReadAll(io.LimitReader(in, MaxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", name, err)
	}
	r := &Reader{name: name}
	if len(data) > MaxFile {
		r.add(1, 1, "file is larger than %d bytes", MaxFile)
		return nil, nil, r.Err()
	}
	body := r.syntax(data)
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	return r, body, nil
}

// syntax parses YAML and returns the one document's body; nil after a fault.
func (r *Reader) syntax(data []byte) (body ast.Node) {
	defer func() {
		if p := recover(); p != nil {
			r.add(1, 1, "not readable as YAML: %v", p)
			body = nil
		}
	}()
	if depth := nesting(data); depth > maxNesting {
		r.add(1, 1, "nested %d deep, at most %d is allowed", depth, maxNesting)
		return nil
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		r.syntaxFault(err)
		return nil
	}
	docs := slices.DeleteFunc(slices.Clone(file.Docs), func(d *ast.DocumentNode) bool { return d.Body == nil })
	if len(docs) != 1 {
		r.add(1, 1, "must hold one YAML document, holds %d", len(docs))
		return nil
	}
	return docs[0].Body
}

// nesting is an upper bound of the depth of flow brackets and block indents.
func nesting(data []byte) int {
	deepest, open, indent, atStart := 0, 0, 0, true
	for _, c := range data {
		switch {
		case c == '\n':
			atStart, indent = true, 0
		case atStart && (c == ' ' || c == '-' || c == '?' || c == ':'):
			indent++
		case c == '[' || c == '{':
			open++
		case (c == ']' || c == '}') && open > 0:
			open--
		}
		if c != '\n' && c != ' ' && c != '-' && c != '?' && c != ':' {
			atStart = false
		}
		deepest = max(deepest, open, indent/2)
	}
	return deepest
}

func (r *Reader) syntaxFault(err error) {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		p := at.GetToken().Position
		r.add(p.Line, p.Column, "not valid YAML: %s", at.GetMessage())
		return
	}
	r.add(1, 1, "not valid YAML: %v", err)
}
