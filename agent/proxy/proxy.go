package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"weir/agent"
	"weir/agent/dialect"
	"weir/agent/task"
	"weir/model"
)

// readTimeout bounds the reading of a request's body, writeStall one write to
// a client that does not read: it must not keep a provider's slot. They hold
// from a request's beginning on, so that a client that only dawdles ends too.
const (
	readTimeout = 60 * time.Second
	writeStall  = 60 * time.Second
)

// unread is how much is read on of the body of a request that is refused, in
// bytes: who is still sending would see its connection break, and not why.
const unread = 64 << 20

// maxHeader is the most that a request's line and header fields may take, in
// bytes. A server that reads more than that lets it be said in a shape that an
// SDK understands.
const maxHeader = 64 << 10

// copySize is the most that is passed on at once, in bytes.
const copySize = 32 << 10

// Proxy is the sidecar's http.Handler.
type Proxy struct {
	client *agent.Client
	calls  http.RoundTripper
	set    *metrics.Set
	keys   atomic.Pointer[Keys]
	tasks  atomic.Pointer[task.Desk]
	mux    *http.ServeMux
	pieces sync.Pool // of copySize

	readTimeout, writeStall time.Duration
}

// New returns a proxy that makes its calls through client and shows the
// metrics of set at /metrics; a nil set has none.
func New(client *agent.Client, set *metrics.Set) *Proxy {
	if set == nil {
		set = metrics.NewSet()
	}
	p := &Proxy{client: client, calls: client.Transport(), set: set, mux: http.NewServeMux(), readTimeout: readTimeout, writeStall: writeStall}
	p.pieces.New = func() any { return new([copySize]byte) }
	p.mux.HandleFunc("GET /healthz", p.health)
	p.mux.HandleFunc("GET /metrics", p.metrics)
	p.mux.HandleFunc("GET /weir/queue", p.guarded(p.queue))
	p.mux.HandleFunc("GET /weir/quota", p.guarded(p.quota))
	p.serveTasks()
	p.mux.HandleFunc("GET /v1/models", p.guarded(p.models))
	p.mux.HandleFunc("GET /v1/models/{name...}", p.guarded(p.model))
	p.mux.HandleFunc("/v1/", p.guarded(p.call))
	p.mux.HandleFunc("/", p.unknown)
	return p
}

// SetKeys replaces the keys; nil lets every client on this machine in.
func (p *Proxy) SetKeys(k Keys) {
	if k == nil {
		p.keys.Store(nil)
		return
	}
	p.keys.Store(&k)
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(p.readTimeout)) // not every writer has deadlines
	_ = rc.SetWriteDeadline(time.Now().Add(p.writeStall))
	if n := headSize(r); n > maxHeader {
		write(w, r, fault(http.StatusRequestHeaderFieldsTooLarge, "headers_too_large", fmt.Sprintf("the request's header has %d bytes, and at most %d are taken; send fewer or shorter fields", n, maxHeader)))
		return
	}
	if r.URL.Path != r.URL.EscapedPath() || r.Method == http.MethodConnect { // no second spelling of a path
		p.unknown(w, r)
		return
	}
	p.mux.ServeHTTP(w, r)
}

// headSize is how many bytes a request's line and header fields take.
func headSize(r *http.Request) int {
	n := len(r.Method) + len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return n
}

// guarded lets only requests in that may use the proxy, and binds what they
// claim to what their key allows.
func (p *Proxy) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if fault := p.admit(r); fault != nil {
			_, _ = io.CopyN(io.Discard, r.Body, unread)
			write(w, r, fault)
			return
		}
		next(w, r)
	}
}

func (p *Proxy) admit(r *http.Request) *dialect.Fault {
	keys := p.keys.Load()
	if keys == nil {
		// A browser names the page that asks. A page has no business here:
		// what it sends blindly to loopback would be paid by the channel.
		if r.Header.Get("Origin") != "" || crossSite(r.Header.Get("Sec-Fetch-Site")) {
			return fault(http.StatusForbidden, "forbidden_origin", "calls of web pages are not served without client keys")
		}
		if !loopbackName(r.Host) {
			return fault(http.StatusMisdirectedRequest, "unknown_host", "without client keys this is called by localhost or an address, by no other name")
		}
		return nil
	}
	c, ok := keys.client(r.Header)
	if !ok {
		return fault(http.StatusUnauthorized, "invalid_api_key", "no client of this sidecar has this key; it takes the keys that it was configured with for clients, not a provider's")
	}
	if c.Tenant != "" {
		r.Header.Set("X-Weir-Tenant", c.Tenant)
	}
	asked, ok := model.ParsePriority(r.Header.Get("X-Weir-Priority"))
	if r.Header.Get("X-Weir-Priority") == "" {
		asked = p.usual(r.Header.Get("X-Weir-Tenant"))
	}
	if ok {
		r.Header.Set("X-Weir-Priority", min(asked, c.Priority).String())
	}
	return nil
}

// usual is the priority of a tenant that asks for none.
func (p *Proxy) usual(tenant string) model.Priority {
	for _, t := range p.client.Fleet().Tenants {
		if t.Name == tenant {
			return t.Priority
		}
	}
	return model.PriorityNormal
}

// loopbackName reports whether a Host is no name that a web page could have
// pointed at this machine: then the browser takes what is here for the page's
// own, and names no page that asks.
func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil
}

func crossSite(site string) bool { return site != "" && site != "none" && site != "same-origin" }

// call passes a request through the transport.
func (p *Proxy) call(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	// A copy: by its own request's body the server knows what was not read of
	// it, which must not be taken for the connection's next request.
	own := r.WithContext(r.Context())
	own.Body = &lifting{ReadCloser: r.Body, lift: func() { _ = rc.SetReadDeadline(time.Time{}) }}
	resp, err := p.calls.RoundTrip(own)
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	defer resp.Body.Close()
	_ = rc.SetWriteDeadline(time.Now().Add(p.writeStall))
	h := w.Header()
	maps.Copy(h, resp.Header)
	if resp.ContentLength >= 0 {
		h.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	w.WriteHeader(resp.StatusCode)
	piece := p.pieces.Get().(*[copySize]byte)
	defer p.pieces.Put(piece)
	if err := p.pass(r.Context(), w, rc, resp.Body, piece[:]); err != nil {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
}

// lifting calls lift once the body was closed: closing it reads on.
type lifting struct {
	io.ReadCloser
	lift func()
}

// Close implements io.Closer.
func (l *lifting) Close() error {
	defer l.lift()
	return l.ReadCloser.Close()
}

// pass copies an answer as it comes.
func (p *Proxy) pass(ctx context.Context, w io.Writer, rc *http.ResponseController, body io.Reader, buf []byte) error {
	for {
		n, err := body.Read(buf)
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(p.writeStall))
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

func (p *Proxy) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}

func (p *Proxy) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	p.set.WritePrometheus(w)
	metrics.WriteProcessMetrics(w)
}

func (p *Proxy) unknown(w http.ResponseWriter, r *http.Request) {
	write(w, r, fault(http.StatusNotFound, "unknown_path", "no such path; calls go to /v1/..."))
}

func fault(status int, code, message string) *dialect.Fault {
	return &dialect.Fault{Class: model.ClassInvalid, Status: status, Code: code, Message: message, Wait: -1}
}

func write(w http.ResponseWriter, r *http.Request, f *dialect.Fault) {
	d, _ := dialect.Of(r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false")
	w.WriteHeader(f.HTTPStatus())
	_, _ = w.Write(f.JSON(d))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}
