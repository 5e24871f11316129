package story

import (
	"fmt"
	"slices"
	"strings"

	"weir/model"
)

// tally counts what became of the calls of one channel.
type tally struct {
	counts [model.NumClasses]uint64
	tokens int64
	// codes are the providers' own codes of what was no success, at most
	// maxCodes, in the order they came.
	codes []string
}

const maxCodes = 4

// add counts an attempt.
func (t *tally) add(a *model.Attempt) {
	if int(a.Class) >= len(t.counts) {
		return
	}
	t.counts[a.Class]++
	t.tokens += int64(max(a.In, 0)) + int64(max(a.Out, 0))
	if a.Class == model.ClassOK {
		return
	}
	code := a.Code
	if code == "" && a.Status > 0 {
		code = fmt.Sprintf("status %d", a.Status)
	}
	if code != "" && len(t.codes) < maxCodes && !slices.Contains(t.codes, code) {
		t.codes = append(t.codes, code)
	}
}

func (t *tally) merge(o *tally) {
	for i, n := range o.counts {
		t.counts[i] += n
	}
	t.tokens += o.tokens
	for _, c := range o.codes {
		if len(t.codes) < maxCodes && !slices.Contains(t.codes, c) {
			t.codes = append(t.codes, c)
		}
	}
}

// String lists the classes that came.
func (t *tally) String() string {
	var list []string
	for _, c := range model.Classes {
		if n := t.counts[c]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, c))
		}
	}
	if len(list) == 0 {
		return "no calls"
	}
	text := strings.Join(list, ", ")
	if len(t.codes) > 0 {
		text += " (" + quoted(t.codes) + ")"
	}
	return text
}

// quoted lists what came from outside so that it is safe to print.
func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = plain(s)
	}
	return strings.Join(out, ", ")
}

// plain returns s without what does not print.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 || c == 0x2028 || c == 0x2029 {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
}
