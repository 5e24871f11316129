package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/agent/classify"
)

const (
	// maxUnknown is how many refusals are kept that no rule knows; the one seen
	// last longest ago makes room.
	maxUnknown = 256
	// unknownPace is the least time between two writings of the file.
	unknownPace = time.Second
	// maxAsked bounds the requests whose refusals are kept, in bytes: what of a
	// larger one is quoted could not be found in time.
	maxAsked = 1 << 20
)

// keptHeaders are the header fields of such a refusal that are kept, by how
// they begin.
var keptHeaders = [...]string{"Content-Type", "Date", "Retry-After", "Ratelimit", "X-Ratelimit", "Anthropic-Ratelimit", "X-Error-Code", "X-Amzn-Errortype", "X-Should-Retry"}

// unknowns keeps refusals that no rule knows, for people who write rules:
// redacted, in a file on this machine, in the form that weir classify reads.
type unknowns struct {
	path  string
	log   *slog.Logger
	redo  *classify.Redactor
	offer chan unknown
	list  []unknownRecord // the loop's own, the one seen last at the end
}

// unknown is one such refusal as it came.
type unknown struct {
	provider      string
	status        int
	header        http.Header
	stream        bool
	body, request []byte
	rule          string
	at            time.Time
}

// unknownRecord is one line of the file.
type unknownRecord struct {
	ID       string            `json:"id"`
	Provider string            `json:"provider"`
	Status   int               `json:"http_status"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body"`
	Stream   bool              `json:"stream"`
	Now      string            `json:"now"`
	Rule     string            `json:"rule"`
	Seen     int               `json:"seen"`
}

// newUnknowns returns the refusals kept in a file; a nil one keeps none.
func newUnknowns(path string, c *classify.Classifier, log *slog.Logger) *unknowns {
	if path == "" {
		return nil
	}
	return &unknowns{path: path, log: log, redo: c.Redactor(), offer: make(chan unknown, 16)}
}

// note takes a refusal if only its status told what it is. It never waits.
func (u *unknowns) note(a *attempt, v *classify.Verdict) {
	if u == nil || a.resp == nil || a.exposed || !v.Unknown() {
		return
	}
	request := a.x.body.Raw()
	if len(a.out) == 0 || len(request) > maxAsked {
		return
	}
	select {
	case u.offer <- unknown{
		provider: a.x.provider(a.permit.Channel), status: a.resp.StatusCode, header: a.resp.Header, stream: a.events,
		body: bytes.Clone(a.out[:min(len(a.out), classify.MaxKept)]), request: request, rule: v.Rule, at: time.Now(),
	}:
	default: // a flood of them tells no more
	}
}

// keep writes the file until ctx ends.
func (u *unknowns) keep(ctx context.Context) {
	u.load()
	for {
		select {
		case one := <-u.offer:
			u.add(&one)
		case <-ctx.Done():
			u.rest()
			return
		}
		u.rest()
		pause(ctx, unknownPace)
	}
}

// rest takes what is on offer and writes the file if there is anything new.
func (u *unknowns) rest() {
	for len(u.offer) > 0 {
		one := <-u.offer
		u.add(&one)
	}
	if err := u.write(); err != nil {
		u.log.Warn("cannot write the refusals that no rule knows", "err", err)
	}
}

func (u *unknowns) load() {
	f, err := os.Open(u.path)
	if err != nil {
		return // there is none yet, or the first writing will tell
	}
	defer func() { _ = f.Close() }() // only read
	in := bufio.NewScanner(io.LimitReader(f, maxUnknown*8*classify.MaxKept))
	in.Buffer(nil, 8*classify.MaxKept)
	for in.Scan() && len(u.list) < maxUnknown {
		var r unknownRecord
		if json.Unmarshal(in.Bytes(), &r) == nil && r.Status > 0 {
			u.list = append(u.list, r)
		}
	}
}

func (u *unknowns) add(one *unknown) {
	r := unknownRecord{
		Provider: one.provider, Status: one.status, Headers: map[string]string{}, Stream: one.stream, Rule: one.rule, Seen: 1,
		Body: u.redo.Redact(one.body, one.request), Now: one.at.UTC().Format(time.RFC3339),
	}
	for name := range one.header {
		if slices.ContainsFunc(keptHeaders[:], func(begin string) bool { return strings.HasPrefix(name, begin) }) {
			r.Headers[name] = u.redo.Redact([]byte(one.header.Get(name)[:min(len(one.header.Get(name)), 128)]), nil)
		}
	}
	r.ID = fmt.Sprintf("%s-%d-%d", one.provider, one.status, one.at.UnixMilli())
	for i := range u.list {
		old := &u.list[i]
		if old.Provider == r.Provider && old.Status == r.Status && withoutDigits(old.Body) == withoutDigits(r.Body) {
			r.Seen += old.Seen
			u.list = slices.Delete(u.list, i, i+1)
			break
		}
	}
	if len(u.list) >= maxUnknown {
		u.list = slices.Delete(u.list, 0, 1)
	}
	u.list = append(u.list, r)
}

// withoutDigits is what refusals of one kind have in common.
func withoutDigits(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, s)
}

// write replaces the file, readable by its owner alone.
func (u *unknowns) write() error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	for i := range u.list {
		if err := out.Encode(&u.list[i]); err != nil {
			return fmt.Errorf("encode %s: %w", u.list[i].ID, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(u.path), 0o700); err != nil {
		return fmt.Errorf("make its folder: %w", err)
	}
	next := u.path + ".next"
	if err := os.WriteFile(next, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := os.Rename(next, u.path); err != nil {
		return fmt.Errorf("put in place: %w", err)
	}
	return nil
}
