package classify

import (
	"strings"
	"testing"

	"weir/model"
)

const head = "version: 3\nfamily: mine\n"

func TestUserTableIsAskedFirst(t *testing.T) {
	c := newClassifier(t, Table{"mine.yaml", []byte(head + `
providers: [our provider]
rules:
  - name: nap
    status: [429, 5xx]
    code: [NAP, "77*"]
    words: [sleeping until * noon]
    unless: [really]
    class: quota_exhausted
    dimension: day
    scope: request
  - name: pattern
    pattern: 'E-\d{3}\b'
    class: auth
`)})
	body := `{"error":{"code":"NAP","message":"Sleeping until about noon. Rate limit."}}`
	for _, tc := range []struct {
		provider string
		status   int
		body     string
		want     string
	}{
		{"our-provider", 429, body, "mine/nap@3"},
		{"Our Provider EU", 503, strings.ReplaceAll(body, "NAP", "7712"), "mine/nap@3"},
		{"our-provider", 400, body, "generic/rate@3"},
		{"another", 429, body, "generic/rate@3"},
		{"our-provider", 429, strings.ReplaceAll(body, "Rate", "Really a rate"), "generic/rate@3"},
		{"our-provider", 429, `{"message":"see E-123."}`, "mine/pattern@3"},
	} {
		v := c.Classify(Answer{Provider: tc.provider, Status: tc.status, Body: []byte(tc.body)})
		if v.Rule != tc.want {
			t.Errorf("%s %d %s: rule %s, want %s", tc.provider, tc.status, tc.body, v.Rule, tc.want)
		}
		if tc.want == "mine/nap@3" && (v.Class != model.ClassQuotaExhausted || v.Dimension != model.DimDay || v.Scope != ScopeRequest) {
			t.Errorf("verdict %+v is not the rule's", v)
		}
	}
	if plain := newClassifier(t); c.Version() == plain.Version() || len(plain.Version()) != 8 {
		t.Errorf("version %q with a table and %q without", c.Version(), plain.Version())
	}
}

func TestTableFaults(t *testing.T) {
	rule := func(lines ...string) string { return head + "rules:\n  - " + strings.Join(lines, "\n    ") + "\n" }
	for name, tc := range map[string]struct{ data, want string }{
		"empty":             {"", "f.yaml:1: file is empty"},
		"no version":        {"family: a\n", "f.yaml:1: version is 0"},
		"bad family":        {"version: 1\nfamily: A b\n", "f.yaml:2: family \"A b\""},
		"unknown key":       {head + "colour: red\n", "f.yaml:3: unknown field \"colour\""},
		"unknown rule key":  {rule("name: a", "colour: red", "class: ok"), "f.yaml:5: unknown field \"colour\""},
		"twice the key":     {head + "family: b\n", "f.yaml:3: "},
		"not yaml":          {"version: [1\n", "f.yaml:"},
		"bad pattern":       {rule("name: a", "class: ok", "pattern: '(a'"), "f.yaml:6: pattern: error parsing regexp"},
		"bad class":         {rule("name: a", "status: [429]", "class: sad"), "f.yaml:6: class \"sad\""},
		"no class":          {rule("name: a", "status: [429]"), "f.yaml:4: class \"\""},
		"bad dimension":     {rule("name: a", "status: [429]", "class: ok", "dimension: width"), "f.yaml:7: dimension \"width\""},
		"bad scope":         {rule("name: a", "status: [429]", "class: ok", "scope: all"), "f.yaml:7: scope \"all\""},
		"bad status":        {rule("name: a", "status: [9xx9]", "class: ok"), "f.yaml:5: status \"9xx9\""},
		"turned status":     {rule("name: a", "status: [599-500]", "class: ok"), "f.yaml:5: status"},
		"no condition":      {rule("name: a", "class: ok"), "f.yaml:4: rule mine/a has no status"},
		"bad name":          {rule("name: A!", "status: [429]", "class: ok"), "f.yaml:4: rule name"},
		"empty phrase":      {rule("name: a", "words: ['!?']", "class: ok"), "f.yaml:5: phrase"},
		"one letter":        {rule("name: a", "words: ['a * b']", "class: ok"), "f.yaml:5: phrase"},
		"code for all":      {rule("name: a", "code: ['*']", "class: ok"), "f.yaml:5: code \"*\" matches everything"},
		"bad span":          {rule("name: a", "status: [429]", "within: soon", "class: ok"), "f.yaml:6: \"soon\" is not a duration"},
		"bad mark":          {head + "marks: [colour]\n", "f.yaml:3: mark \"colour\""},
		"empty provider":    {head + "providers: ['--']\n", "f.yaml:3: provider \"--\""},
		"list for a name":   {rule("name: [a]", "status: [429]", "class: ok"), "f.yaml:4: "},
		"twice the rule":    {rule("name: a", "status: [429]", "class: ok\n  - name: a", "status: [429]", "class: ok"), "f.yaml:7: rule mine/a stands at f.yaml:4 already"},
		"shipped rule":      {"version: 1\nfamily: minimax\nrules: [{name: busy, status: [429], class: ok}]\n", "minimax/busy stands at"},
		"larger than bound": {strings.Repeat("#", maxTable+1), "is larger than"},
	} {
		_, err := New(Table{"f.yaml", []byte(tc.data)})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

func TestTableFaultsAllAtOnce(t *testing.T) {
	_, err := New(Table{"f.yaml", []byte(head + "rules:\n  - {name: a, status: [1], class: x, scope: y, dimension: z}\n")})
	if err == nil || strings.Count(err.Error(), "f.yaml:") != 4 {
		t.Errorf("error %v, want four faults", err)
	}
}
