package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/sim/incident"
)

// The headers that tell the emulator what a call stands for.
const (
	headerInput   = "X-Emulator-Input-Tokens"
	headerOutput  = "X-Emulator-Output-Tokens"
	headerRequest = "X-Emulator-Request"
	headerTry     = "X-Emulator-Try"
)

// caller sends the calls of one agent's applications.
type caller struct {
	client *http.Client
	url    string
	key    string
	stream bool
	// whole sends prompts as long as they stand for; else they are short, and
	// a header tells.
	whole bool
}

// newCaller checks a target and returns who calls it.
func newCaller(target, key string, stream bool, conns int) (*caller, error) {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return nil, fmt.Errorf("parse target: %w", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, fmt.Errorf("target %q: want http:// or https:// and a host", u.Redacted())
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	if !strings.HasSuffix(u.Path, "/v1") {
		u.Path += "/v1"
	}
	u.Path += "/chat/completions"
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &caller{
		url: u.String(), key: key, stream: stream,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, MaxIdleConnsPerHost: conns, IdleConnTimeout: time.Minute,
				DisableCompression: true, ForceAttemptHTTP2: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// RequestName is the name under which the emulator knows a request.
func RequestName(id uint64) string { return strconv.FormatUint(id, 10) }

func (c *caller) close() { c.client.CloseIdleConnections() }

// call makes one try and returns "" when it was good, or a code. A ctx that
// ends is for the caller to notice.
func (c *caller) call(ctx context.Context, w *incident.Workload, r *request) string {
	req, err := c.request(ctx, w, r)
	if err != nil {
		return "request"
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return transportCode(err, errors.Is(ctx.Err(), context.DeadlineExceeded))
	}
	defer resp.Body.Close()
	code := judge(resp)
	if code == "broken" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "timeout"
	}
	return code
}

// word is a token of text, as agents reckon; longest bounds a prompt in words.
const (
	word    = " dam"
	longest = 1 << 18
)

// words are the text of a prompt with so many tokens, its frame being a few of
// them.
func words(tokens int64) string {
	const frame = 22
	return strings.Repeat(word, int(max(0, min(tokens, longest)-frame)))
}

// countsTokens reports whether a provider ever limits tokens: then agents
// reckon with what they see of a prompt.
func countsTokens(inc *incident.Incident) bool {
	limits := func(l *incident.Law) bool {
		return l.TPM.Limit >= 0 || l.InputTPM.Limit >= 0 || l.OutputTPM.Limit >= 0 || l.TokensPerDay.Limit >= 0
	}
	for i := range inc.Providers {
		p := &inc.Providers[i]
		if limits(&p.Law) || slices.ContainsFunc(p.Changes, func(c incident.Change) bool { return limits(&c.To) }) {
			return true
		}
	}
	return false
}

func (c *caller) request(ctx context.Context, w *incident.Workload, r *request) (*http.Request, error) {
	content := "Sum up note " + strconv.FormatUint(r.ID, 10) + "."
	if c.whole {
		content += words(r.Input)
	}
	body := map[string]any{
		"model":    w.Route,
		"messages": []map[string]string{{"role": "user", "content": content}},
	}
	if r.MaxTokens > 0 {
		body["max_tokens"] = r.MaxTokens
	}
	if c.stream || w.Client.Stream {
		body["stream"] = true
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode call: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("make call: %w", err)
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set(headerInput, strconv.FormatInt(r.Input, 10))
	h.Set(headerOutput, strconv.FormatInt(r.Output, 10))
	h.Set(headerRequest, RequestName(r.ID))
	h.Set(headerTry, strconv.FormatInt(r.tries, 10))
	h.Set("X-Weir-Priority", string(w.Priority))
	if w.Tenant != "" {
		h.Set("X-Weir-Tenant", w.Tenant)
	}
	if c.key != "" {
		h.Set("Authorization", "Bearer "+c.key)
	}
	return req, nil
}
