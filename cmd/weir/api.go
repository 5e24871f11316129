package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"
)

// apiFlags say which controller a command asks.
type apiFlags struct {
	URL string `name:"url" env:"WEIR_URL" default:"http://127.0.0.1:8080" placeholder:"URL" help:"The controller's HTTP address."`
	// TokenFile is read when the variable is empty.
	TokenFile string `name:"token-file" default:"./weir-data/credentials/token" placeholder:"FILE" help:"Token of a controller on this machine, unless WEIR_TOKEN is set."`
}

// tokenVariable holds the token that orders need, and questions from another
// machine.
const tokenVariable = "WEIR_TOKEN"

const (
	apiWithin = 10 * time.Second // a question and its answer
	maxAnswer = 64 << 20
)

// api asks a controller.
type api struct {
	base  *url.URL
	token string
}

func (f apiFlags) api() (*api, error) {
	base, err := url.Parse(f.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, badInput(fmt.Errorf("--url=%s: want http:// or https:// and a host", f.URL))
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	token := os.Getenv(tokenVariable)
	if token == "" && loopback(net.JoinHostPort(base.Hostname(), "0")) {
		// A token of this machine's controller is shown to no other machine.
		if token, err = readToken(f.TokenFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, badInput(err)
		}
	}
	return &api{base: base, token: token}, nil
}

// get asks and decodes the answer into to.
func (a *api) get(ctx context.Context, path string, to any) error {
	return a.do(ctx, http.MethodGet, path, "", nil, to)
}

// post orders with a JSON body.
func (a *api) post(ctx context.Context, path string, body, to any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	return a.order(ctx, path, "application/json", data, to)
}

// order orders with a body of any kind.
func (a *api) order(ctx context.Context, path, kind string, body []byte, to any) error {
	if a.token == "" {
		return badInput(fmt.Errorf("orders need the controller's token: set %s, or name its file with --token-file", tokenVariable))
	}
	return a.do(ctx, http.MethodPost, path, kind, body, to)
}

func (a *api) do(ctx context.Context, method, path, kind string, body []byte, to any) error {
	ctx, cancel := context.WithTimeout(ctx, apiWithin)
	defer cancel()
	path, query, _ := strings.Cut(path, "?")
	address := a.base.JoinPath(path)
	address.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, method, address.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if at := (*url.Error)(nil); errors.As(err, &at) {
			err = at.Err
		}
		return badInput(fmt.Errorf("cannot reach the controller at %s: %w; is it running there? --url names another", a.base.Redacted(), cause(err)))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", a.base.Redacted(), err)
	}
	return a.answer(resp, data, to)
}

// answer takes an answer apart. What the controller does not accept is bad
// input, what it cannot do at the moment is not.
func (a *api) answer(resp *http.Response, data []byte, to any) error {
	data = printable(data)
	if resp.StatusCode/100 != 2 {
		var said struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(data, &said) != nil || said.Error == "" {
			said.Error = "it answers with status " + resp.Status
		}
		err := fmt.Errorf("controller at %s: %s", a.base.Redacted(), said.Error)
		if resp.StatusCode >= 500 {
			return err
		}
		return badInput(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return badInput(fmt.Errorf("what answers at %s is no controller: %w", a.base.Redacted(), err))
	}
	return nil
}

// whoAmI is who gives an order, for the log.
func whoAmI() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
