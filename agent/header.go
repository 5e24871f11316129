package agent

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// The headers that never cross an agent, in canonical form. Beside those of
// one hop they are whatever speaks of a client's own account or place: the
// channel's credential takes their part.
var (
	hopHeaders = [...]string{
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
	requestHeaders = [...]string{
		"Accept-Encoding", "Api-Key", "Authorization", "Content-Length", "Cookie", "Expect", "Forwarded",
		"Host", "Openai-Organization", "Openai-Project", "Ocp-Apim-Subscription-Key", "Origin", "Referer",
		"Via", "X-Api-Key", "X-Goog-Api-Key", "X-Real-Ip",
	}
	answerHeaders = [...]string{
		"Alt-Svc", "Content-Length", "Location", "Openai-Organization", "Openai-Project", "Server", "Set-Cookie",
		"Strict-Transport-Security", "Via", "X-Should-Retry",
	}
)

const weirPrefix = "X-Weir-"

// idempotencyHeaders are what makes an http.Transport send a request again by
// itself, without a permit, when a connection breaks that was used before. It
// looks for these spellings alone; to a provider all are the same.
var idempotencyHeaders = [...]string{headerIdempotency, "X-" + headerIdempotency}

// upstreamHeader returns a request's headers as a provider gets them, without
// a key.
func upstreamHeader(in http.Header) http.Header {
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if strings.HasPrefix(name, weirPrefix) || strings.HasPrefix(name, "X-Forwarded-") {
			continue
		}
		out[name] = values
	}
	drop(out, in, requestHeaders[:])
	for _, name := range idempotencyHeaders {
		if values, ok := out[name]; ok {
			delete(out, name)
			out[strings.ToLower(name)] = values
		}
	}
	return out
}

// clientHeader returns an answer's headers as a client gets them.
func clientHeader(in http.Header) http.Header {
	out := make(http.Header, len(in)+8)
	for name, values := range in {
		if !strings.HasPrefix(name, weirPrefix) {
			out[name] = values
		}
	}
	drop(out, in, answerHeaders[:])
	return out
}

func drop(out, in http.Header, names []string) {
	for _, list := range in["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	for _, name := range hopHeaders {
		delete(out, name)
	}
	for _, name := range names {
		delete(out, name)
	}
}

// upstreamQuery returns a query without the ways a key is passed in one.
func upstreamQuery(raw string) string {
	if raw == "" {
		return ""
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return ""
	}
	for name := range q {
		switch strings.ToLower(name) {
		case "key", "api_key", "api-key", "apikey", "access_token", "subscription-key", "token":
			delete(q, name)
		}
	}
	return q.Encode()
}
