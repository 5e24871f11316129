package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/agent"
)

// impatient serves a world's proxy with a short patience.
func (w *world) impatient(read, write time.Duration) net.Conn {
	w.t.Helper()
	p := New(w.client, nil)
	p.readTimeout, p.writeStall = read, write
	s := httptest.NewServer(p)
	w.t.Cleanup(s.Close)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestSlowBodies lets clients keep back the body of a call, and of requests
// whose body nobody wants.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) })
	for _, line := range []string{
		"POST /v1/chat/completions", "PUT /v1/chat/completions", "GET /v1/models", "GET /weir/queue", "POST /weir/tasks", "GET /metrics", "GET /healthz", "GET /no/such",
	} {
		for _, body := range []string{"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
			c := w.impatient(50*time.Millisecond, time.Minute)
			if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s", line, body); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil { // until the server ends it
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if got := w.post("/v1/chat/completions", plainBody); got.status != http.StatusOK {
		t.Errorf("afterwards: status %d", got.status)
	}
}

// TestClientDoesNotRead wants a call whose client does not read its answer to
// end, and the provider's with it.
func TestClientDoesNotRead(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	w := newWorld(t, func(_ int, rw http.ResponseWriter, r *http.Request) {
		defer close(gone)
		stream(rw, textFrame)
		for long := "data: " + strings.Repeat(" ", 64<<10) + "{}\n\n"; r.Context().Err() == nil; {
			if _, err := io.WriteString(rw, long); err != nil {
				return
			}
		}
	})
	c := w.impatient(time.Minute, 50*time.Millisecond)
	if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(streamBody), streamBody); err != nil {
		t.Fatal(err)
	}
	<-gone
	for !strings.Contains(w.get("/weir/queue"), `"running":0`) {
		time.Sleep(time.Millisecond)
	}
}

// TestBodyIsNoRequest refuses a request before its body was read: what comes of
// the body must not be taken for the connection's next request.
func TestBodyIsNoRequest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ line, length string }{
		"too large": {"POST /v1/chat/completions", "Content-Length: 1000000"},
		"chunks":    {"POST /v1/chat/completions", "Transfer-Encoding: chunked"},
		"unwanted":  {"PUT /v1/chat/completions", "Content-Length: 1000000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }, func(c *agent.Config) { c.MaxBody = 1000 })
			c := w.impatient(time.Minute, time.Minute)
			hidden := "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
			body := strings.Repeat(hidden, 1000)
			if tt.length == "Transfer-Encoding: chunked" {
				body = fmt.Sprintf("%x\r\n%s", 1000, body)
			}
			go func() {
				_, _ = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", tt.line, tt.length, body)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			in := bufio.NewReader(c)
			first, err := http.ReadResponse(in, nil)
			if err != nil || first.StatusCode < 400 {
				t.Fatalf("%+v, %v", first, err)
			}
			if _, err := io.Copy(io.Discard, first.Body); err != nil {
				t.Fatal(err)
			}
			if second, err := http.ReadResponse(in, nil); err == nil && second.StatusCode < 300 {
				t.Errorf("a part of the body is answered: %+v", second)
			}
		})
	}
}

// TestRefusedWhileSending sends a large body whole before it reads its answer,
// as clients do: it gets the refusal and no broken connection.
func TestRefusedWhileSending(t *testing.T) {
	t.Parallel()
	const size = 12 << 20 // more than sockets hold
	for name, tt := range map[string]struct {
		status int
		chunks bool
	}{
		"too large":          {413, false},
		"too large, chunks":  {413, true},
		"an unknown key":     {401, false},
		"tasks that are off": {501, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(_ int, w http.ResponseWriter, _ *http.Request) { good(w) }, func(c *agent.Config) { c.MaxBody = 8 << 20 })
			path := "/v1/chat/completions"
			switch tt.status {
			case 401:
				w.proxy.SetKeys(Keys{})
			case 501:
				path = "/weir/tasks"
			}
			c, err := net.Dial("tcp", w.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			length, body := fmt.Sprintf("Content-Length: %d", size), strings.Repeat("x", size)
			if tt.chunks {
				length, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
			}
			if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", path, length, body); err != nil {
				t.Fatalf("it was not let finish: %v", err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != tt.status || resp.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%+v, %v", resp, err)
			}
		})
	}
}
