package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"weir/agent"
	"weir/model"
)

// BenchmarkAdded compares the proxy with a bare reverse proxy in front of the
// same provider, which answers at once: the difference is what Weir adds.
func BenchmarkAdded(b *testing.B) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, "/completions") && r.Header.Get("Accept-Encoding") == "identity" {
			stream(w, roleFrame, textFrame, textFrame, finishFrame, doneFrame)
			return
		}
		good(w)
	}))
	defer up.Close()
	target, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
	})
	defer bare.Close()
	cfg := fleetConfig("main")
	cfg.Channels[0].Alone = 1000
	cfg.Timeouts = model.TimeoutConfig{FirstToken: model.Minute}
	client, err := agent.New(agent.Config{
		Agent: "bench", Fleet: cfg, Upstreams: map[string]agent.Upstream{"main": {BaseURL: up.URL + "/v1"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Close(b.Context()) }()
	weir := httptest.NewServer(New(client, nil))
	defer weir.Close()

	long := strings.Replace(plainBody, "hello there", strings.Repeat("The quick brown fox. ", 1000), 1)
	for _, body := range []struct{ name, text string }{{"plain", plainBody}, {"plain-20KB", long}, {"stream", streamBody}} {
		for _, to := range []struct{ name, url string }{{"direct", up.URL}, {"reverseproxy", bare.URL}, {"weir", weir.URL}} {
			b.Run(body.name+"/"+to.name, func(b *testing.B) {
				calls := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
				b.ReportAllocs()
				for b.Loop() {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, to.url+"/v1/chat/completions", strings.NewReader(body.text))
					if err != nil {
						b.Fatal(err)
					}
					if body.name == "stream" {
						r.Header.Set("Accept-Encoding", "identity")
					}
					resp, err := calls.Do(r)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
						b.Fatalf("status %d, %v", resp.StatusCode, err)
					}
					resp.Body.Close()
				}
			})
		}
	}
}
