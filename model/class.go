package model

// Class says what became of an attempt. It decides who hears of it: window,
// budget, weight or breaker. The zero value means "not known yet" and is
// never part of a settled attempt.
type Class uint8

// The classes. Their numbers are part of the wire format and never change.
const (
	// ClassOK is a complete, valid answer.
	ClassOK Class = 1
	// ClassRateLimited is a refusal because the caller's account used up a
	// requests, tokens or concurrency limit; waiting helps.
	ClassRateLimited Class = 2
	// ClassOverloaded is trouble on the provider's side: busy, no capacity,
	// 5xx, 529, 2064.
	ClassOverloaded Class = 3
	// ClassQuotaExhausted is a spent day or plan quota or an empty purse;
	// waiting helps only after a reset or a payment.
	ClassQuotaExhausted Class = 4
	// ClassAuth is a wrong, expired or forbidden credential.
	ClassAuth Class = 5
	// ClassInvalid is the caller's mistake: no other try helps.
	ClassInvalid Class = 6
	// ClassTransport is a connection that failed, timed out or broke before
	// the answer was complete; the provider may have accepted the work.
	ClassTransport Class = 7
	// ClassCanceled is an attempt its caller gave up.
	ClassCanceled Class = 8
)

// Classes lists every class in the order of its number.
var Classes = [...]Class{
	ClassOK, ClassRateLimited, ClassOverloaded, ClassQuotaExhausted,
	ClassAuth, ClassInvalid, ClassTransport, ClassCanceled,
}

// NumClasses is the length of an array indexed by Class.
const NumClasses = int(ClassCanceled) + 1

// String returns the class's name as it stands in events, metrics and JSON.
func (c Class) String() string {
	switch c {
	case ClassOK:
		return "ok"
	case ClassRateLimited:
		return "rate_limited"
	case ClassOverloaded:
		return "overloaded"
	case ClassQuotaExhausted:
		return "quota_exhausted"
	case ClassAuth:
		return "auth"
	case ClassInvalid:
		return "invalid"
	case ClassTransport:
		return "transport"
	case ClassCanceled:
		return "canceled"
	}
	return "unknown"
}

// ParseClass is the inverse of Class.String; ok is false for other names.
func ParseClass(name string) (c Class, ok bool) {
	for _, c := range Classes {
		if c.String() == name {
			return c, true
		}
	}
	return 0, false
}

// Refused reports whether the provider turned the attempt away, so that it
// did no work for it.
func (c Class) Refused() bool {
	return c == ClassRateLimited || c == ClassOverloaded || c == ClassQuotaExhausted || c == ClassAuth
}

// Dimension says what a limit counts. The zero value means "not stated".
type Dimension uint8

// The dimensions. Their numbers are part of the wire format and never change.
const (
	DimNone        Dimension = 0
	DimRequests    Dimension = 1 // requests per minute
	DimTokens      Dimension = 2 // tokens per minute
	DimConcurrency Dimension = 3 // attempts at the same time
	DimDay         Dimension = 4 // requests or tokens per day or plan window
	DimCredits     Dimension = 5 // money, credits, balance
)

// String returns the dimension's name as it stands in events and JSON, or ""
// when none is stated.
func (d Dimension) String() string {
	switch d {
	case DimNone:
		return ""
	case DimRequests:
		return "requests"
	case DimTokens:
		return "tokens"
	case DimConcurrency:
		return "concurrency"
	case DimDay:
		return "day"
	case DimCredits:
		return "credits"
	}
	return ""
}

// ParseDimension is the inverse of Dimension.String; ok is false for other names.
func ParseDimension(name string) (d Dimension, ok bool) {
	for d := DimNone; d <= DimCredits; d++ {
		if d.String() == name {
			return d, true
		}
	}
	return DimNone, false
}

// Scope says who else a refusal concerns.
type Scope uint8

// The scopes. Their numbers are part of the wire format and never change.
const (
	ScopeRequest Scope = 0 // only this request
	ScopeChannel Scope = 1 // every request on the channel
	ScopeGroup   Scope = 2 // every channel of its quota groups
)

// String returns the scope's name as it stands in events and JSON.
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
