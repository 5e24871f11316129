package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"weir/agent/dialect"
)

// Upstream says where a channel's calls go and which key they carry. An agent
// takes it only from its own configuration, never from the log: whoever can
// write events must not be able to send a key elsewhere.
type Upstream struct {
	// BaseURL is the provider's URL up to and including its version, such as
	// https://provider.example/v1; a request's path below /v1 is put behind it.
	BaseURL string
	// KeyEnv or KeyFile name where the key is read; with neither the calls
	// carry none. The file is read again when it changes.
	KeyEnv, KeyFile string
	// KeyHeader is the header that carries the key bare. Empty means
	// Authorization as a bearer token, or X-Api-Key for the messages API.
	KeyHeader string
	// Drop names the members of a request's JSON that the channel does not
	// know and that may be left out; Refuse those without which the answer
	// would be another, so that a request with one is not sent there.
	Drop, Refuse []string
	// NoStreamUsage is set for a provider that refuses stream_options.
	NoStreamUsage bool
}

// maxKey bounds a key's length in bytes.
const maxKey = 16 << 10

// keyCheck is the least time between two looks at a key's file.
const keyCheck = time.Second

// target is an upstream that was checked.
type target struct {
	Upstream
	base *url.URL
	key  key
}

// key is a secret. It has no string form, so that no log can hold it.
type key struct {
	mu      sync.Mutex
	file    string
	value   []byte
	checked time.Time
	changed time.Time
	size    int64
}

func newTarget(u Upstream) (*target, error) {
	base, err := url.Parse(u.BaseURL)
	switch {
	case err != nil: // its text is left out: a URL may hold a secret
		return nil, errors.New("base_url is no URL")
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, errors.New("base_url: want http:// or https:// and a host")
	case base.User != nil, base.RawQuery != "", base.Fragment != "":
		return nil, fmt.Errorf("base_url on %s: want neither user, query nor fragment", base.Host)
	case u.KeyEnv != "" && u.KeyFile != "":
		return nil, fmt.Errorf("key from both %s and %s: want one", u.KeyEnv, u.KeyFile)
	}
	t := &target{Upstream: u, base: base}
	t.base.Path = strings.TrimSuffix(t.base.Path, "/")
	if u.KeyEnv != "" {
		if t.key.value = []byte(strings.TrimSpace(os.Getenv(u.KeyEnv))); len(t.key.value) == 0 {
			return nil, fmt.Errorf("environment variable %s is empty", u.KeyEnv)
		}
	}
	if u.KeyFile != "" {
		t.key.file = u.KeyFile
		if err := t.key.load(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// url returns where a request with that path and query goes.
func (t *target) url(path, query string) *url.URL {
	u := *t.base
	u.Path += strings.TrimPrefix(path, "/v1")
	u.RawPath = ""
	u.RawQuery = query
	return &u
}

// authorize puts the channel's key on a request.
func (t *target) authorize(h http.Header, d dialect.Dialect, now time.Time) {
	k := t.key.get(now)
	switch {
	case k == "":
	case t.KeyHeader != "":
		h.Set(t.KeyHeader, k)
	case d.Anthropic():
		h.Set("X-Api-Key", k)
	default:
		h.Set("Authorization", "Bearer "+k)
	}
}

// get returns the key; one that cannot be read again stays what it was.
func (k *key) get(now time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file != "" && now.Sub(k.checked) >= keyCheck {
		k.checked = now
		if info, err := os.Stat(k.file); err == nil && (info.ModTime() != k.changed || info.Size() != k.size) {
			_ = k.load() // the old key serves until the file is whole again
		}
	}
	return string(k.value)
}

func (k *key) load() error {
	f, err := os.Open(k.file)
	if err != nil {
		return fmt.Errorf("open key file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat key file: %w", err)
	}
	value, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return fmt.Errorf("read key file: %w", err)
	}
	value = bytes.TrimSpace(value)
	if len(value) == 0 || len(value) > maxKey || bytes.ContainsAny(value, "\r\n") {
		return fmt.Errorf("key file %s: want one line of at most %d bytes", k.file, maxKey)
	}
	k.value, k.changed, k.size = value, info.ModTime(), info.Size()
	return nil
}
