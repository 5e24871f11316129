package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"weir/model"
	"weir/sim/incident"
	"weir/sim/provider"
)

// baseResp is MiniMax's verdict, in every answer.
type baseResp struct {
	Code int64  `json:"status_code"`
	Text string `json:"status_msg"`
}

// object is a JSON object whose keys encoding/json sorts.
type object map[string]any

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic("emulator: BUG: answer does not encode: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that is gone needs no answer
}

// refuse writes the model's refusal in its shape.
func (s *Server) refuse(w http.ResponseWriter, r *provider.Refusal) {
	s.rateHeaders(w.Header(), r.Headers)
	if r.RetryAfter >= 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((r.RetryAfter+time.Second-1)/time.Second), 10))
		if r.Shape == incident.ShapeOpenAI {
			w.Header().Set("Retry-After-Ms", strconv.FormatInt(int64((r.RetryAfter+time.Millisecond-1)/time.Millisecond), 10))
		}
	}
	writeJSON(w, r.Status, body(r))
}

// body is a refusal as its shape writes it.
func body(r *provider.Refusal) object {
	text := text(r)
	switch r.Shape {
	case incident.ShapeAnthropic:
		fault := object{"type": r.Code, "message": text}
		if r.Code == "enforced_spend_limit_reached" {
			fault = object{"type": "rate_limit_error", "message": text, "details": object{"error_code": r.Code}}
		}
		return object{"type": "error", "error": fault, "request_id": "req_emulated"}
	case incident.ShapeGemini:
		return geminiBody(r, text)
	case incident.ShapeMiniMax:
		code, err := strconv.ParseInt(r.Code, 10, 64)
		if err != nil {
			code = 1000 // its code for an unknown error
		}
		return object{"id": "", "object": "", "created": 0, "model": "", "choices": nil, "base_resp": baseResp{code, text}}
	case incident.ShapeFlat:
		out := object{"code": r.Code, "message": text}
		if n, err := strconv.ParseInt(r.Code, 10, 64); err == nil {
			out["code"] = n
		}
		if r.RetryAfter >= 0 {
			out["retry_after"] = r.RetryAfter.Seconds()
		}
		return out
	case incident.ShapeOpenAI:
	}
	return object{"error": object{"message": text, "type": openAIType(r), "param": nil, "code": r.Code}}
}

// openAIType is OpenAI's word for the kind of a refusal.
func openAIType(r *provider.Refusal) string {
	switch r.Class {
	case model.ClassOverloaded:
		return "service_unavailable_error"
	case model.ClassQuotaExhausted:
		return "insufficient_quota"
	case model.ClassAuth, model.ClassInvalid:
		if r.Dimension == model.DimTokens {
			return "tokens"
		}
		return "invalid_request_error"
	case model.ClassRateLimited:
		if r.Dimension == model.DimTokens {
			return "tokens"
		}
	case model.ClassOK, model.ClassTransport, model.ClassCanceled:
	}
	return "requests"
}

// geminiBody names the quota in its details.
func geminiBody(r *provider.Refusal, text string) object {
	details := []object{}
	if quota := geminiQuota(r.Dimension); quota != "" {
		details = append(details, object{
			"@type":      "type.googleapis.com/google.rpc.QuotaFailure",
			"violations": []object{{"quotaMetric": "emulator/" + r.Dimension.String(), "quotaId": quota}},
		})
	}
	if r.RetryAfter >= 0 {
		details = append(details, object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%.3fs", r.RetryAfter.Seconds())})
	}
	return object{"error": object{"code": r.Status, "message": text, "status": r.Code, "details": details}}
}

func geminiQuota(d model.Dimension) string {
	switch d {
	case model.DimRequests:
		return "GenerateRequestsPerMinutePerProjectPerModel"
	case model.DimTokens:
		return "GenerateContentInputTokensPerModelPerMinute"
	case model.DimDay:
		return "GenerateRequestsPerDayPerProjectPerModel"
	case model.DimNone, model.DimConcurrency, model.DimCredits:
	}
	return ""
}

// text is a refusal's message. It says what the refusal says, never the truth.
func text(r *provider.Refusal) string {
	switch r.Class {
	case model.ClassOverloaded:
		return "cluster load high, retry later"
	case model.ClassQuotaExhausted:
		return "You exceeded your current quota, please check your plan and billing details"
	case model.ClassAuth:
		return "invalid credential"
	case model.ClassInvalid:
		return "Request too large: the input or output tokens must be reduced"
	case model.ClassRateLimited:
		return rateText(r)
	case model.ClassOK, model.ClassTransport, model.ClassCanceled:
	}
	return "refused"
}

func rateText(r *provider.Refusal) string {
	what := ""
	switch r.Dimension {
	case model.DimRequests:
		what = " on requests per min (RPM)"
	case model.DimTokens:
		what = " on tokens per min (TPM)"
	case model.DimConcurrency:
		what = " on concurrent requests"
	case model.DimNone, model.DimDay, model.DimCredits:
	}
	if r.RetryAfter >= 0 {
		return fmt.Sprintf("Rate limit reached%s. Please try again in %.3fs.", what, r.RetryAfter.Seconds())
	}
	return "Rate limit reached" + what + "."
}

// rateHeaders writes the limits as the shape's headers show them.
func (s *Server) rateHeaders(h http.Header, limits provider.Headers) {
	if !limits.Sent {
		return
	}
	anthropic := s.provider.Law.Refusal.Shape == incident.ShapeAnthropic
	write := func(what string, f provider.Figure) {
		if f.Limit < 0 {
			return
		}
		limit, remaining := strconv.FormatInt(f.Limit, 10), strconv.FormatInt(f.Remaining, 10)
		if anthropic {
			h.Set("Anthropic-Ratelimit-"+what+"-Limit", limit)
			h.Set("Anthropic-Ratelimit-"+what+"-Remaining", remaining)
			h.Set("Anthropic-Ratelimit-"+what+"-Reset", time.Now().Add(f.Reset).UTC().Format(time.RFC3339))
			return
		}
		h.Set("X-Ratelimit-Limit-"+what, limit)
		h.Set("X-Ratelimit-Remaining-"+what, remaining)
		h.Set("X-Ratelimit-Reset-"+what, f.Reset.Round(time.Millisecond).String())
	}
	write("Requests", limits.Requests)
	write("Tokens", limits.Tokens)
}

// clientFault answers a caller's mistake in the shape of the API.
func clientFault(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, object{"error": object{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}})
}

// failed answers a failure that means nothing.
func failed(w http.ResponseWriter, status int) {
	writeJSON(w, status, object{"error": object{"message": "The server had an error while processing your request", "type": "server_error", "param": nil, "code": nil}})
}

// unavailable answers a call that the server itself gave up.
func unavailable(w http.ResponseWriter) {
	writeJSON(w, http.StatusServiceUnavailable, object{"error": object{"message": "the server is shutting down", "type": "service_unavailable_error", "param": nil, "code": nil}})
}
