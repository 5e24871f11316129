package classify

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/model"
)

// rule is one compiled rule. All its conditions must hold; an empty one does.
type rule struct {
	name string // family/name@version

	status  []statusRange
	codes   []codePattern
	words   []phrase // any of them
	and     []phrase // any of them too
	unless  []phrase // none of them
	pattern *regexp.Regexp
	finish  []string
	within  model.Nanos // the told wait is at most this; 0: no condition
	beyond  model.Nanos // the told wait is at least this; 0: no condition

	class     model.Class
	dimension model.Dimension // what it counts, whatever the words say
	guess     model.Dimension // what it counts if nothing says so
	scope     Scope
	scoped    bool
}

type statusRange struct{ from, to int }

// codePattern is a lower-case code, or the beginning of one.
type codePattern struct {
	text   string
	prefix bool
}

// evidence is everything a refusal tells, in the form that rules look at.
type evidence struct {
	f        *facts
	provider []byte   // its name as words
	status   int      // the HTTP status, or the one a success quotes
	codes    []string // lower case
	words    wordText // of codes and texts
	finish   string
	wait     model.Nanos // said in so many words, not a mere reset
	told     counts
	limits   []limit
	now      time.Time
}

// matches reports whether the rule decides on e, and by which code if by one.
func (r *rule) matches(e *evidence) (code string, ok bool) {
	if len(r.status) > 0 && !slices.ContainsFunc(r.status, func(s statusRange) bool { return s.from <= e.status && e.status <= s.to }) {
		return "", false
	}
	if len(r.finish) > 0 && !slices.Contains(r.finish, e.finish) {
		return "", false
	}
	if r.within > 0 && (e.wait < 0 || e.wait > r.within) {
		return "", false
	}
	if r.beyond > 0 && e.wait < r.beyond {
		return "", false
	}
	if len(r.codes) > 0 {
		if code, ok = r.code(e.codes); !ok {
			return "", false
		}
	}
	if len(r.words) > 0 && !anyIn(r.words, &e.words) || len(r.and) > 0 && !anyIn(r.and, &e.words) || anyIn(r.unless, &e.words) {
		return "", false
	}
	if r.pattern != nil && !r.pattern.Match(e.f.text) {
		return "", false
	}
	return code, true
}

func (r *rule) code(codes []string) (string, bool) {
	for _, code := range codes {
		for _, p := range r.codes {
			if code == p.text || p.prefix && strings.HasPrefix(code, p.text) {
				return code, true
			}
		}
	}
	return "", false
}

func anyIn(phrases []phrase, text *wordText) bool {
	for i := range phrases {
		if phrases[i].in(text) {
			return true
		}
	}
	return false
}

// table is the rules of one provider family, of the user, or of nobody in
// particular.
type table struct {
	family    string
	providers [][]byte // names as words; none: every provider
	marks     marks
	rules     []rule
	measures  []measure
}

// measure says what a limit counts when certain words stand in the answer.
type measure struct {
	dimension model.Dimension
	classes   []model.Class
	codes     []codePattern
	words     []phrase
	unless    []phrase
}

// covers reports whether the table speaks for the provider of that name, or of
// that mark in its envelope.
func (t *table) covers(e *evidence) bool {
	if len(t.providers) == 0 || t.marks&e.f.keys != 0 {
		return true
	}
	return slices.ContainsFunc(t.providers, func(name []byte) bool { return bytes.Contains(e.provider, name) })
}
