package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/agent/classify"
	"weir/model"
)

// API is the shape of a provider's calls.
type API string

// The APIs.
const (
	OpenAI    API = "openai"    // POST .../chat/completions
	Anthropic API = "anthropic" // POST .../messages
)

// Target is where calls go.
type Target struct {
	// URL is the provider's, up to and including its version, such as
	// https://provider.example/v1.
	URL string
	API API
	// Model is the model's name, as the provider calls it.
	Model string
	// Provider names a rule set of the classifier; empty means that of API.
	Provider string
	// Key is the secret; empty sends none.
	Key string
	// Client sends the calls; nil means one of its own.
	Client *http.Client
}

// callFor bounds one call, maxAnswer what is read of its answer.
const (
	callFor   = 2 * time.Minute
	maxAnswer = 1 << 20
)

// caller makes calls.
type caller struct {
	Target
	endpoint string
	rules    *classify.Classifier
	client   *http.Client
	close    func()
}

// Check returns an error when no call can be made.
func (t *Target) Check() error {
	u, err := url.Parse(t.URL)
	switch {
	case err != nil:
		return errors.New("the URL cannot be read") // it may hold a secret
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("the URL needs http:// or https:// and a host, such as https://provider.example/v1")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return fmt.Errorf("the URL on %s must have neither user, query nor fragment", u.Host)
	case t.Model == "":
		return errors.New("the model's name is empty")
	}
	return nil
}

func newCaller(t Target) (*caller, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	rules, err := classify.New()
	if err != nil {
		return nil, err
	}
	c := &caller{Target: t, rules: rules, client: t.Client, close: func() {}}
	c.endpoint = strings.TrimSuffix(t.URL, "/") + "/chat/completions"
	if t.API == Anthropic {
		c.endpoint = strings.TrimSuffix(t.URL, "/") + "/messages"
	}
	if c.Provider == "" {
		c.Provider = string(t.API)
	}
	if c.client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 256
		c.client = &http.Client{Transport: transport}
		c.close = transport.CloseIdleConnections
	}
	follow := *c.client
	follow.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a key goes nowhere else
	c.client = &follow
	return c, nil
}

// request is a call as both APIs write it.
type request struct {
	Model     string    `json:"model"`
	MaxTokens int64     `json:"max_tokens"`
	Messages  []message `json:"messages"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// prompt is a text of about that many tokens. It begins with a number of its
// own, so that no cache of prompts takes its weight away.
func prompt(tokens int64) string {
	const word = "one "
	var b strings.Builder
	b.WriteString(strconv.FormatUint(uint64(rand.Uint32()), 36) + " Count up. ")
	for range tokens - 8 {
		b.WriteString(word)
	}
	return b.String()
}

// call makes one call and judges its answer.
func (c *caller) call(ctx context.Context, a Ask) Result {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	body, err := json.Marshal(request{c.Model, a.Output, []message{{"user", prompt(a.Input)}}})
	if err != nil {
		panic("probe: BUG: " + err.Error())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, strings.NewReader(string(body)))
	if err != nil {
		return Result{Class: model.ClassTransport, RetryAfter: -1}
	}
	c.head(req.Header)
	answer := classify.Answer{Provider: c.Provider}
	resp, err := c.client.Do(req)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err // without the address once more
		}
		answer.TransportError = err.Error()
		return c.judge(&answer)
	}
	defer resp.Body.Close()
	answer.Status, answer.Header = resp.StatusCode, resp.Header
	if answer.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		answer.TransportError = err.Error()
	}
	return c.judge(&answer)
}

func (c *caller) head(h http.Header) {
	h.Set("Content-Type", "application/json")
	if c.API == Anthropic {
		h.Set("Anthropic-Version", "2023-06-01")
	}
	switch {
	case c.Key == "":
	case c.API == Anthropic:
		h.Set("X-Api-Key", c.Key)
	default:
		h.Set("Authorization", "Bearer "+c.Key)
	}
}

func (c *caller) judge(a *classify.Answer) Result {
	a.Now = time.Now()
	v := c.rules.Classify(*a)
	r := Result{Class: v.Class, Dimension: v.Dimension, Code: v.Code, Broken: a.TransportError, RetryAfter: time.Duration(v.RetryAfter), Hints: v.Hints}
	if v.Usage.Known {
		r.Tokens = int64(v.Usage.In + v.Usage.Out)
	}
	return r
}
