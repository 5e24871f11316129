package weir_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"weir/model"
)

//go:generate go test . -run TestReference -rewrite

var rewrite = flag.Bool("rewrite", false, "write REFERENCE.md anew")

// facts are the types that a log holds, in the order of their kinds.
var facts = []string{"Attempts", "Summary", "Config", "ParamSet", "Command", "Lead", "Tick", "Rebase"}

// TestReference holds REFERENCE.md to what stands in package model.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Reference\n\nMade from package `model` by `task gen`; a test holds it to the code.\n\n")
	writeParams(&b)
	writeFacts(t, &b)
	if *rewrite {
		if err := os.WriteFile("REFERENCE.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Error("REFERENCE.md is not what package model says: run task gen")
	}
}

func writeParams(b *strings.Builder) {
	b.WriteString("## Parameters of the laws\n\n`weir params show` says which are in force, `weir params push FILE` changes them, `weir sim tune` searches for better ones.\n" +
		"The range holds both ends; *scale* is how the search divides it. A file has plain numbers in the unit; times are shown here as durations.\n\n| parameter | unit | default | range | scale | where the default comes from |\n|---|---|---|---|---|---|\n")
	for _, s := range model.ParamSpecs() {
		scale := "linear"
		if s.Scale == model.ScaleLog {
			scale = "log"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s to %s | %s | %s |\n", s.Name, s.Unit, shown(s.Unit, s.Default), shown(s.Unit, s.Min), shown(s.Unit, s.Max), scale, s.Source)
	}
}

// shown writes a number with its thousands apart, and a time in words too.
func shown(unit string, n int64) string {
	if unit == "ns" {
		return time.Duration(n).String()
	}
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// writeFacts writes what each kind of record holds, and the types in it.
func writeFacts(t *testing.T, b *strings.Builder) {
	t.Helper()
	structs := structsOf(t, "model")
	b.WriteString("\n## Events\n\nThe records of a fleet's log. How they are encoded stands in `events/doc.go`. Times are nanoseconds, weights and shares parts per million.\n")
	var parts []string
	for _, name := range facts {
		parts = append(parts, writeStruct(t, b, structs, name, "###")...)
	}
	b.WriteString("\n### Parts of events\n")
	done := map[string]bool{}
	for i := 0; i < len(parts); i++ {
		if name := parts[i]; !done[name] && !slices.Contains(facts, name) {
			done[name] = true
			parts = append(parts, writeStruct(t, b, structs, name, "####")...)
		}
	}
}

// structsOf returns the exported structs of a folder with their comments.
func structsOf(t *testing.T, dir string) map[string]*doc.Type {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	pkg, err := doc.NewFromFiles(set, files, "weir/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*doc.Type{}
	for _, typ := range pkg.Types {
		if _, ok := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType); ok {
			all[typ.Name] = typ
		}
	}
	return all
}

// writeStruct writes a struct and returns the structs that its fields hold.
func writeStruct(t *testing.T, b *strings.Builder, structs map[string]*doc.Type, name, level string) (held []string) {
	t.Helper()
	typ := structs[name]
	if typ == nil {
		t.Fatalf("package model has no struct %s", name)
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s\n\n", level, name, oneLine(typ.Doc))
	fields := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List
	if len(fields) > 0 {
		b.WriteString("| field | type | |\n|---|---|---|\n")
	}
	before := ""
	for _, f := range fields {
		about := oneLine(f.Doc.Text() + " " + f.Comment.Text())
		if about == "" && len(f.Names) > 0 && slices.Contains(strings.FieldsFunc(before, notLetter), f.Names[0].Name) {
			about = before // it is of both
		}
		before = about
		var names []string
		for _, n := range f.Names {
			if n.IsExported() {
				names = append(names, "`"+n.Name+"`")
			}
		}
		kind := types.ExprString(f.Type)
		for _, word := range strings.FieldsFunc(kind, func(r rune) bool { return strings.ContainsRune("[]*. ", r) }) {
			if structs[word] != nil {
				held = append(held, word)
			}
		}
		if len(f.Names) == 0 {
			names = []string{"`" + kind + "`"} // embedded
		}
		if len(names) > 0 {
			fmt.Fprintf(b, "| %s | %s | %s |\n", strings.Join(names, ", "), kind, about)
		}
	}
	return held
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

func oneLine(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}
