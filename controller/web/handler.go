package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/controller"
	"weir/events"
	"weir/model"
)

// Controller is what the API shows and orders; *controller.Loop is one.
type Controller interface {
	Status(ctx context.Context) (controller.Status, error)
	View(ctx context.Context) (model.FleetView, error)
	Params(ctx context.Context) (model.ParamSet, uint64, error)
	Snapshot(ctx context.Context) (data []byte, digest [32]byte, seq uint64, err error)
	Decisions(q controller.DecisionQuery) ([]controller.Decision, error)
	Append(ctx context.Context, f model.Fact) (seq uint64, err error)
	Wait(ctx context.Context, seq uint64) error
	Alive(ctx context.Context, within time.Duration) bool
}

// Options are what a handler works with.
type Options struct {
	// Controller is required.
	Controller Controller
	// Past finds what channels were; nil serves none.
	Past Past
	// Rewind finds the fleet as it was; nil finds nothing.
	Rewind Rewind
	// Page serves what a browser shows, for every path that is nothing of the
	// API; it holds no secret. Nil serves none.
	Page http.Handler
	// Metrics writes Prometheus text; nil serves none.
	Metrics func(io.Writer)
	// Token is what changes and requests from other machines must show;
	// empty refuses both.
	Token string
	// Hosts are names under which the server is reached, beside localhost
	// and addresses.
	Hosts []string
	// Logger hears of orders; nil means nobody does.
	Logger *slog.Logger
}

const (
	// maxBody bounds a request's body. A configuration is an entry of the log.
	maxBody = events.MaxEntry
	// answerWithin bounds what a request waits for the loop.
	answerWithin = 5 * time.Second
)

// handler is the API over one controller.
type handler struct {
	Options
	token [sha256.Size]byte
	// viewers holds a token for each page that is told.
	viewers chan struct{}
}

// livePath is where a page is told, as long as it is open.
const livePath = "/api/v1/live"

// Handler returns the API.
func Handler(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{Options: o, token: sha256.Sum256([]byte(o.Token)), viewers: make(chan struct{}, maxLive)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.HandleFunc("GET /readyz", h.readyz)
	for pattern, show := range map[string]http.HandlerFunc{
		"GET /metrics":                h.metrics,
		"GET /api/v1/status":          h.status,
		"GET /api/v1/channels":        h.channels,
		"GET /api/v1/channels/{name}": h.channel,
		"GET /api/v1/agents":          h.agents,
		"GET /api/v1/decisions":       h.decisions,
		"GET /api/v1/params":          h.params,
		"GET /api/v1/history":         h.history,
		"GET /api/v1/at":              h.at,
		"GET /api/v1/snapshot":        h.snapshot,
		"GET " + livePath:             h.live,
	} {
		mux.HandleFunc(pattern, h.reading(show))
	}
	for pattern, change := range map[string]http.HandlerFunc{
		"POST /api/v1/commands": h.command,
		"POST /api/v1/params":   h.pushParams,
		"POST /api/v1/config":   h.pushConfig,
	} {
		mux.HandleFunc(pattern, h.changing(change))
	}
	if o.Page != nil {
		mux.Handle("GET /", o.Page)
	}
	return h.guard(mux)
}

// guard checks the Host, bounds the body and the time, and sets the headers
// that every answer has.
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if !h.knows(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, "this server is not called by that name")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if r.URL.Path == livePath {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// knows reports whether a Host means this server. An address does: only a
// name can be pointed at somebody else's machine.
func (h *handler) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return host == "localhost" || net.ParseIP(host) != nil || slices.Contains(h.Hosts, host)
}

// reading lets through who may look.
func (h *handler) reading(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !local(r) && !h.allowed(w, r) {
			return
		}
		next(w, r)
	}
}

// changing lets through who may change.
func (h *handler) changing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.allowed(w, r) {
			next(w, r)
		}
	}
}

// local reports whether a request comes from this machine, and not through a
// proxy on it for somebody else.
func local(r *http.Request) bool {
	for _, passed := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if r.Header.Get(passed) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// allowed checks the token, and answers when it is not right. The comparison
// takes the same time for every token.
func (h *handler) allowed(w http.ResponseWriter, r *http.Request) bool {
	if h.Token == "" {
		refuse(w, http.StatusForbidden, "no token is configured, so this is refused to everybody")
		return false
	}
	shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(shown))
	if subtle.ConstantTimeCompare(sum[:], h.token[:]) != 1 {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "this needs the controller's token as a bearer token")
		return false
	}
	return true
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client went away
}

type failure struct {
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, status int, text string) {
	answer(w, status, failure{Error: text})
}

// fail answers with what an error means.
func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, events.ErrTooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, "it is too large for the log")
	case errors.Is(err, events.ErrFull), errors.Is(err, controller.ErrBusy), errors.Is(err, controller.ErrStopped), errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, err.Error())
	default:
		refuse(w, http.StatusInternalServerError, err.Error())
	}
}
