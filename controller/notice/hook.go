package notice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Shape is the body that a receiver expects.
type Shape string

// The shapes.
const (
	Generic Shape = "generic" // a Notice as JSON
	Slack   Shape = "slack"   // {"text"}, which Mattermost and others take too
	Feishu  Shape = "feishu"  // {"msg_type", "content": {"text"}}
)

// Shapes lists them.
func Shapes() []Shape { return []Shape{Generic, Slack, Feishu} }

// HookOptions say where news goes.
type HookOptions struct {
	// Name is the hook's name in logs and metrics, such as the variable that
	// holds its address.
	Name string
	// URL is the address, a secret. Redirects are not followed.
	URL   string
	Shape Shape
	// Only restricts what is told; empty means everything.
	Only []Kind
	// Client is used for calls; nil means one with a time limit.
	Client *http.Client
	// Pause is the time before the second try, four times as long before each
	// next; 0 means 2 seconds.
	Pause time.Duration
}

const (
	// hookQueue bounds the news that waits for an address that does not answer.
	hookQueue = 100
	// hookTries is how often a notice is sent.
	hookTries  = 4
	hookWithin = 10 * time.Second
)

// Hook tells one address.
type Hook struct {
	o       HookOptions
	log     *slog.Logger
	queue   chan Notice
	sent    *metrics.Counter
	dropped *metrics.Counter
}

// NewHook returns a hook. Its counters are registered in set.
func NewHook(o HookOptions, set *metrics.Set, log *slog.Logger) *Hook {
	if o.Client == nil {
		o.Client = &http.Client{Timeout: hookWithin, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if o.Pause <= 0 {
		o.Pause = 2 * time.Second
	}
	counter := func(result string) *metrics.Counter {
		return set.GetOrCreateCounter(fmt.Sprintf("weir_notices_total{hook=%q,result=%q}", o.Name, result))
	}
	return &Hook{o: o, log: log, queue: make(chan Notice, hookQueue), sent: counter("sent"), dropped: counter("dropped")}
}

// Tell puts news into the queue, and drops it, counted, when that is full.
func (h *Hook) Tell(n Notice) {
	if len(h.o.Only) > 0 && n.Kind != KindMore && !slices.Contains(h.o.Only, n.Kind) {
		return
	}
	select {
	case h.queue <- n:
	default:
		h.dropped.Inc()
	}
}

// Run sends what is in the queue until ctx ends.
func (h *Hook) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-h.queue:
			if err := h.deliver(ctx, n); err == nil {
				h.sent.Inc()
			} else if ctx.Err() == nil {
				h.dropped.Inc()
				h.log.Warn("a notice could not be sent", slog.String("hook", h.o.Name), slog.String("kind", string(n.Kind)), slog.Any("error", err))
			}
		}
	}
}

// deliver sends one notice, and again when that may help.
func (h *Hook) deliver(ctx context.Context, n Notice) error {
	body, err := h.o.Shape.body(n)
	if err != nil {
		return err
	}
	pause := h.o.Pause
	for try := 1; ; try++ {
		again, err := h.post(ctx, body)
		if err == nil || !again || try == hookTries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause *= 4
	}
}

// post sends a body once; again says whether another try may help.
func (h *Hook) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, hookWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.o.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the address cannot be used") // the error names it
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.o.Client.Do(req)
	if err != nil {
		if at := (*url.Error)(nil); errors.As(err, &at) {
			err = at.Err // without the address
		}
		return true, err
	}
	defer func() { _ = resp.Body.Close() }() // read as far as needed
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	switch {
	case resp.StatusCode/100 != 2:
		return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("it answers with status %d", resp.StatusCode)
	case err != nil:
		return false, nil // it was taken
	}
	return false, h.o.Shape.refused(answer)
}

// body is a notice in a shape. What a provider or an agent said may be among its
// words: in a chat they call nobody and link to nothing.
func (s Shape) body(n Notice) ([]byte, error) {
	switch s {
	case Slack:
		return json.Marshal(map[string]string{"text": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(n.Line())})
	case Feishu: // it has no escape
		return json.Marshal(map[string]any{"msg_type": "text", "content": map[string]string{"text": strings.ReplaceAll(n.Line(), "<", "＜")}})
	case Generic:
	}
	return json.Marshal(n)
}

// refused returns the error that an answer with status 200 holds. Feishu says
// so with a code.
func (s Shape) refused(answer []byte) error {
	if s != Feishu {
		return nil
	}
	var said struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(answer, &said) == nil && said.Code != 0 {
		return fmt.Errorf("it answers with code %d", said.Code)
	}
	return nil
}

// Line is the notice in one line for people.
func (n *Notice) Line() string {
	sign := "🔴"
	if n.State == Resolved {
		sign = "🟢 over:"
	}
	line := fmt.Sprintf("%s weir %s: %s", sign, n.Fleet, n.Text)
	if n.Again > 0 {
		line += fmt.Sprintf(" (came and went %d times since the last notice)", n.Again)
	}
	if n.State == Resolved {
		line += fmt.Sprintf(" (lasted %s)", n.At.Sub(n.Since).Round(time.Second))
	}
	if n.Link != "" {
		line += " " + n.Link
	}
	return line
}
