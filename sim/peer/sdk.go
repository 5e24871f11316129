package peer

import "weir/model"

// SDK is what the OpenAI client library does after a failed call (the
// Anthropic one does the same): up to 2 retries, each after the time the
// answer asks if that is at most two minutes (an answer that asks for more is
// final), else after 0.5 s * 2^i, at most 8 s, less up to a quarter of it at
// random. It retries refusals, server errors, timeouts and broken
// connections. It limits nothing.
//
// Source: openai/openai-python, _base_client.py (commit 000f030) and
// openai/openai-go v3.99.0, requestconfig.go.
type SDK struct {
	dice Dice
}

const (
	sdkRetries  = 2
	sdkFirst    = second / 2
	sdkMax      = 8 * second
	sdkLongest  = 2 * minute // wait an answer may ask for
	sdkJitterBy = 4          // a quarter
)

// NewSDK returns the habit with its defaults.
func NewSDK(d Dice) *SDK { return &SDK{d} }

// Again returns the wait before the next try.
func (r *SDK) Again(_ int64, tries int, _ Group, s *Sample) (wait int64, receipt uint64, ok bool) {
	if tries > sdkRetries || s.RetryAfter > sdkLongest || !retryable(s) {
		return 0, 0, false
	}
	if s.RetryAfter > 0 {
		return s.RetryAfter, 0, true
	}
	d := min(sdkFirst<<(tries-1), sdkMax)
	return d - r.dice.Below(d/sdkJitterBy), 0, true
}

// retryable reports whether another try of the same call may help.
func retryable(s *Sample) bool {
	switch s.Class {
	case model.ClassRateLimited, model.ClassOverloaded, model.ClassQuotaExhausted, model.ClassTransport:
		return true
	case model.ClassOK, model.ClassAuth, model.ClassInvalid, model.ClassCanceled:
	}
	return false
}
