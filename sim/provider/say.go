package provider

import (
	"weir/model"
	"weir/sim/incident"
)

// The HTTP statuses that providers answer with, by their own numbers, since a
// simulator has no business with net/http. 529 is Anthropic's, for trouble of
// its own.
const (
	statusFine            = 200
	statusBadRequest      = 400
	statusUnauthorized    = 401
	statusPaymentRequired = 402
	statusForbidden       = 403
	statusTooLarge        = 413
	statusTooMany         = 429
	statusUnavailable     = 503
	statusOverloaded      = 529
)

// words is how a shape answers for one reason when the law names neither
// status nor code.
type words struct {
	status int
	code   string
}

// natural returns what APIs of a shape answer for a reason, as their
// documentation and public reports show it.
func natural(shape incident.Shape, reason incident.Reason) words {
	switch shape {
	case incident.ShapeAnthropic:
		return naturalAnthropic(reason)
	case incident.ShapeGemini:
		return naturalGemini(reason)
	case incident.ShapeMiniMax:
		return naturalMiniMax(reason)
	case incident.ShapeOpenAI, incident.ShapeFlat:
	}
	return naturalOpenAI(reason)
}

func naturalOpenAI(reason incident.Reason) words {
	switch reason {
	case incident.ReasonConcurrency:
		return words{statusUnavailable, "server_is_overloaded"}
	case incident.ReasonDay:
		return words{statusTooMany, "insufficient_quota"}
	case incident.ReasonRequests, incident.ReasonTokens, incident.ReasonBan, incident.ReasonTooLarge:
	}
	return words{statusTooMany, "rate_limit_exceeded"}
}

func naturalAnthropic(reason incident.Reason) words {
	switch reason {
	case incident.ReasonConcurrency:
		return words{statusOverloaded, "overloaded_error"}
	case incident.ReasonTooLarge:
		return words{statusTooLarge, "request_too_large"}
	case incident.ReasonDay:
		return words{statusTooMany, "enforced_spend_limit_reached"}
	case incident.ReasonRequests, incident.ReasonTokens, incident.ReasonBan:
	}
	return words{statusTooMany, "rate_limit_error"}
}

func naturalGemini(reason incident.Reason) words {
	switch reason {
	case incident.ReasonConcurrency:
		return words{statusUnavailable, "UNAVAILABLE"}
	case incident.ReasonTooLarge:
		return words{statusBadRequest, "INVALID_ARGUMENT"}
	case incident.ReasonRequests, incident.ReasonTokens, incident.ReasonDay, incident.ReasonBan:
	}
	return words{statusTooMany, "RESOURCE_EXHAUSTED"}
}

func naturalMiniMax(reason incident.Reason) words {
	switch reason {
	case incident.ReasonConcurrency:
		return words{statusFine, "2064"}
	case incident.ReasonTokens:
		return words{statusFine, "1039"}
	case incident.ReasonDay:
		return words{statusFine, "2056"}
	case incident.ReasonTooLarge:
		return words{statusFine, "2013"}
	case incident.ReasonRequests, incident.ReasonBan:
	}
	return words{statusFine, "1002"}
}

// meaning returns what the true reason would be called by an honest provider.
func meaning(reason incident.Reason) (model.Class, model.Dimension) {
	switch reason {
	case incident.ReasonConcurrency:
		return model.ClassOverloaded, model.DimNone
	case incident.ReasonRequests:
		return model.ClassRateLimited, model.DimRequests
	case incident.ReasonTokens:
		return model.ClassRateLimited, model.DimTokens
	case incident.ReasonDay:
		return model.ClassQuotaExhausted, model.DimDay
	case incident.ReasonBan:
		return model.ClassRateLimited, model.DimNone
	case incident.ReasonTooLarge:
		return model.ClassInvalid, model.DimTokens
	}
	return model.ClassOverloaded, model.DimNone
}

// codeMeaning returns what a code says wherever it stands; ok is false for
// codes that say nothing by themselves.
func codeMeaning(code string) (c model.Class, d model.Dimension, ok bool) {
	switch code {
	case "2064", "1000", "1001", "1024", "1033", "server_is_overloaded", "overloaded_error", "engine_overloaded_error", "UNAVAILABLE", "overloaded":
		return model.ClassOverloaded, model.DimNone, true
	case "1002":
		return model.ClassRateLimited, model.DimRequests, true
	case "1039":
		return model.ClassRateLimited, model.DimTokens, true
	case "1041":
		return model.ClassRateLimited, model.DimConcurrency, true
	case "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", "14003":
		return model.ClassRateLimited, model.DimNone, true
	case "2056":
		return model.ClassQuotaExhausted, model.DimDay, true
	case "1008", "insufficient_quota", "enforced_spend_limit_reached":
		return model.ClassQuotaExhausted, model.DimCredits, true
	case "1004", "2049", "invalid_api_key", "authentication_error":
		return model.ClassAuth, model.DimNone, true
	case "2013", "request_too_large", "INVALID_ARGUMENT":
		return model.ClassInvalid, model.DimTokens, true
	}
	return 0, model.DimNone, false
}

// statusMeaning returns what a status says when no code does.
func statusMeaning(status int) (c model.Class, ok bool) {
	switch {
	case status == statusTooMany:
		return model.ClassRateLimited, true
	case status == statusUnauthorized || status == statusForbidden:
		return model.ClassAuth, true
	case status == statusPaymentRequired:
		return model.ClassQuotaExhausted, true
	case status >= 500:
		return model.ClassOverloaded, true
	case status >= 400:
		return model.ClassInvalid, true
	}
	return 0, false
}

// say returns the refusal a law gives for a reason. A law that names neither
// status nor code is honest and names the limit; one that does says the same
// for every reason, and its receiver learns only what that says.
func say(law *incident.Refusal, reason incident.Reason) Refusal {
	w := natural(law.Shape, reason)
	r := Refusal{Status: w.status, Code: w.code, Shape: law.Shape, Delay: law.Delay, RetryAfter: -1}
	r.Class, r.Dimension = meaning(reason)
	if law.Status == 0 && law.Code == "" {
		return r
	}
	if law.Status != 0 {
		r.Status = int(law.Status)
	}
	r.Code = law.Code
	if c, d, ok := codeMeaning(law.Code); ok {
		r.Class, r.Dimension = c, d
	} else if c, ok := statusMeaning(r.Status); ok {
		r.Class, r.Dimension = c, model.DimNone
	}
	return r
}
