package classify

import (
	"net/http"
	"strings"
	"time"

	"weir/model"
)

// Answer is what came back from one attempt.
type Answer struct {
	// Provider names a rule set; empty or unknown leaves the generic rules.
	Provider string
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// Header has canonical field names, as net/http makes them.
	Header http.Header
	// Body is the body as received: of any type, compressed with gzip or
	// deflate or not, whole or not. A stream's events stand in it as sent.
	Body []byte
	// Stream tells whether the caller asked for a stream.
	Stream bool
	// TransportError says in words what broke; empty when nothing did. With a
	// status it means that the body broke off after the header.
	TransportError string
	// Now is the time to measure instants against. The zero time means that
	// none is known: then only an answer with a Date can tell an instant.
	Now time.Time
}

// Scope says who else an answer concerns.
type Scope uint8

// The scopes.
const (
	// ScopeRequest is this request alone.
	ScopeRequest Scope = iota
	// ScopeChannel is every request on the channel.
	ScopeChannel
	// ScopeGroup is every channel that draws on the same account.
	ScopeGroup
)

// String returns the scope's name as it stands in JSON.
func (s Scope) String() string {
	switch s {
	case ScopeRequest:
		return "request"
	case ScopeChannel:
		return "channel"
	case ScopeGroup:
		return "group"
	}
	return "unknown"
}

func parseScope(name string) (Scope, bool) {
	for s := ScopeRequest; s <= ScopeGroup; s++ {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}

// Verdict is what became of an attempt. Its fields go into the report of the
// attempt as they are; negative numbers mean "not said".
type Verdict struct {
	Class model.Class
	// Code is the provider's own code, at most 64 bytes, empty if none.
	Code  string
	Scope Scope
	// Dimension is what the limit that was met counts, none if not stated.
	Dimension model.Dimension
	// Limit and Remaining belong to Dimension.
	Limit, Remaining int64
	// RetryAfter is the time to wait before another try makes sense.
	RetryAfter model.Nanos
	// Hints are all limits the header told, at most 8, on success too.
	Hints []model.LimitHint
	// Usage is the tokens the answer says it used.
	Usage Usage
	// Rule is the rule that decided, as family/rule@version.
	Rule string
}

// Retryable reports whether another try on the same channel can succeed
// without anyone's help: it follows the class.
func (v *Verdict) Retryable() bool {
	switch v.Class {
	case model.ClassRateLimited, model.ClassOverloaded, model.ClassTransport:
		return true
	case model.ClassOK, model.ClassQuotaExhausted, model.ClassAuth, model.ClassInvalid, model.ClassCanceled:
	}
	return false
}

// Unknown reports whether no rule knew a refusal, so that its status alone, or
// that it said so within a success, made it one.
func (v *Verdict) Unknown() bool {
	return strings.HasPrefix(v.Rule, "law/status-") || strings.HasPrefix(v.Rule, "law/error-in-success")
}

// defaultScope is the scope of a class when no rule says otherwise.
func defaultScope(class model.Class, dimension model.Dimension) Scope {
	switch class {
	case model.ClassOK, model.ClassInvalid, model.ClassCanceled:
		return ScopeRequest
	case model.ClassQuotaExhausted:
		if dimension == model.DimCredits {
			return ScopeGroup // one purse pays for all
		}
	case model.ClassRateLimited, model.ClassOverloaded, model.ClassAuth, model.ClassTransport:
	}
	return ScopeChannel
}
