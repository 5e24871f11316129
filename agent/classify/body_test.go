package classify

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"testing"
	"time"

	"weir/model"
)

func pack(t *testing.T, b []byte, w io.WriteCloser, out *bytes.Buffer) []byte {
	t.Helper()
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCompressedBodies judges bodies whatever their header says of them.
func TestCompressedBodies(t *testing.T) {
	c := newClassifier(t)
	busy := []byte(`{"error":{"code":"1305","message":"the model is overloaded"}}`)
	var g, z, d bytes.Buffer
	raw, err := flate.NewWriter(&d, 6)
	if err != nil {
		t.Fatal(err)
	}
	zipped := pack(t, busy, gzip.NewWriter(&g), &g)
	for name, tc := range map[string]struct {
		encoding string
		body     []byte
		status   int
		want     model.Class
	}{
		"gzip":               {"gzip", zipped, 200, model.ClassOverloaded},
		"gzip not declared":  {"", zipped, 429, model.ClassOverloaded},
		"plain said gzip":    {"gzip", busy, 429, model.ClassOverloaded},
		"zlib":               {"deflate", pack(t, busy, zlib.NewWriter(&z), &z), 429, model.ClassOverloaded},
		"raw deflate":        {"deflate", pack(t, busy, raw, &d), 429, model.ClassOverloaded},
		"gzip cut":           {"gzip", zipped[:len(zipped)-20], 200, model.ClassOverloaded}, // enough is left to tell
		"gzip head alone":    {"gzip", zipped[:12], 200, model.ClassTransport},
		"not gzip":           {"gzip", []byte("\x1f\x8bxxxxxxxxxxxxxxx"), 200, model.ClassTransport},
		"unknown":            {"br", []byte("\x8b\x05\x80hello"), 200, model.ClassOK},
		"unknown on refusal": {"br", []byte("\x8b\x05\x80hello"), 429, model.ClassRateLimited},
	} {
		a := Answer{Status: tc.status, Header: http.Header{"Content-Encoding": {tc.encoding}}, Body: tc.body}
		if v := c.Classify(a); v.Class != tc.want {
			t.Errorf("%s: %v by %s, want %v", name, v.Class, v.Rule, tc.want)
		}
		s := c.Stream(a)
		_, _ = s.Write(tc.body)
		if v := s.Close(time.Time{}, ""); v.Class != tc.want {
			t.Errorf("%s as a stream: %v by %s, want %v", name, v.Class, v.Rule, tc.want)
		}
	}
}

// TestBombIsBounded unpacks far less than is packed.
func TestBombIsBounded(t *testing.T) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	for range 64 {
		_, _ = w.Write(make([]byte, 1<<20))
	}
	_ = w.Close()
	body, ok := inflate(nil, out.Bytes())
	if !ok || len(body) != MaxBody {
		t.Errorf("unpacked %d bytes, %v; want %d", len(body), ok, MaxBody)
	}
}

// TestLongBodyOfOtherMedia keeps recordings and transcripts answers.
func TestLongBodyOfOtherMedia(t *testing.T) {
	c := newClassifier(t)
	long := bytes.Repeat([]byte("error 429 rate limit "), 1<<14)
	for kind, want := range map[string]model.Class{
		"audio/mpeg": model.ClassOK, "text/plain": model.ClassOK, "application/json": model.ClassTransport, "": model.ClassTransport,
	} {
		a := Answer{Status: 200, Header: http.Header{"Content-Type": {kind}}, Body: long}
		s := c.Stream(a)
		_, _ = s.Write(long)
		if v := c.Classify(a); v.Class != want {
			t.Errorf("%s: %v by %s, want %v", kind, v.Class, v.Rule, want)
		}
		if v := s.Close(time.Time{}, ""); v.Class != want {
			t.Errorf("%s as a stream: %v by %s, want %v", kind, v.Class, v.Rule, want)
		}
		if v := s.Close(time.Time{}, "reset"); v.Class != model.ClassTransport {
			t.Errorf("%s broken off: %v by %s, want transport", kind, v.Class, v.Rule)
		}
	}
}
