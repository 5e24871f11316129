package dialect

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"strings"
	"testing"
)

func TestReadForm(t *testing.T) {
	const part = "--b\r\nContent-Disposition: form-data; name="
	for _, tt := range []struct {
		name, in string
		model    string
		stream   bool
		err      error
	}{
		{"fields", part + "\"model\"\r\n\r\nroute\r\n" + part + "\"stream\"\r\n\r\ntrue\r\n--b--\r\n", "route", true, nil},
		{"no quotes", part + "model\r\n\r\nroute\r\n--b--", "route", false, nil},
		{"a file named so", part + "\"model\"; filename=\"model\"\r\n\r\nroute\r\n--b--", "", false, nil},
		{"the last one counts", part + "\"model\"\r\n\r\na\r\n" + part + "\"model\"\r\n\r\nb\r\n--b--", "b", false, nil},
		{"none", part + "\"purpose\"\r\n\r\nbatch\r\n--b--", "", false, nil},
		{"empty model", part + "\"model\"\r\n\r\n\r\n--b--", "", false, ErrNoModel},
		{"two lines", part + "\"model\"\r\n\r\na\r\nb\r\n--b--", "", false, ErrNoModel},
		{"long model", part + "\"model\"\r\n\r\n" + strings.Repeat("m", 300) + "\r\n--b--", "", false, ErrNoModel},
		{"no end", part + "\"model\"\r\n\r\nroute\r\n--b", "", false, ErrNotForm},
		{"another boundary", "--c\r\n", "", false, ErrNotForm},
		{"empty", "", "", false, ErrNotForm},
	} {
		b, err := Read(Media, "multipart/form-data; boundary=b", []byte(tt.in))
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
		}
		if err == nil && (b.Model != tt.model || b.Stream != tt.stream || b.Input < 1) {
			t.Errorf("%s: got %+v", tt.name, b)
		}
	}
	if _, err := Read(Media, "multipart/form-data", []byte(part)); !errors.Is(err, ErrNotForm) {
		t.Errorf("no boundary: %v", err)
	}
}

// FuzzReadForm holds that what is rewritten is the same form, with the model's
// name in the place of the client's and nothing else changed.
func FuzzReadForm(f *testing.F) {
	f.Add("route", "text", "file", "channel-model")
	f.Add("a\r\n--b", "--b--", "\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nx", "m\r\n--b--")
	f.Fuzz(func(t *testing.T, name, text, file, channel string) {
		var in bytes.Buffer
		w := multipart.NewWriter(&in)
		_ = w.WriteField("model", name) // a buffer takes everything
		_ = w.WriteField("text", text)
		p, _ := w.CreateFormFile("file", "f")
		_, _ = io.WriteString(p, file)
		_ = w.Close()
		b, err := Read(Media, w.FormDataContentType(), in.Bytes())
		if err != nil {
			return
		}
		out, err := io.ReadAll(b.Rewrite(Media, channel, true, []string{"text"}).Reader())
		if err != nil {
			t.Fatal(err)
		}
		form, err := multipart.NewReader(bytes.NewReader(out), w.Boundary()).ReadForm(1 << 20)
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		clean := strings.Map(func(c rune) rune {
			if c < ' ' {
				return -1
			}
			return c
		}, channel)
		if got := form.Value["model"]; len(got) != 1 || got[0] != clean || form.Value["text"][0] != text || len(form.File["file"]) != 1 {
			t.Fatalf("%q became %q", in.Bytes(), out)
		}
	})
}

// TestOpaque holds that a body is read as what it says to be only where the
// API allows it.
func TestOpaque(t *testing.T) {
	for _, tt := range []struct {
		d        Dialect
		kind, in string
		err      error
	}{
		{Other, "application/octet-stream", "\x00\x01", nil},
		{Other, "", "", nil},
		{Other, "application/json", "", nil},
		{Other, "application/json", "{}", nil},
		{Other, "application/json", "hello", ErrNotJSON},
		{Other, "text/plain", `{"model":1}`, ErrNoModel},
		{Chat, "text/plain", "hello", ErrNotJSON},
		{Chat, "application/json", "{}", ErrNoModel},
		{Chat, "", "", ErrNotJSON},
		{Media, "application/json", "{}", nil},
	} {
		if b, err := Read(tt.d, tt.kind, []byte(tt.in)); !errors.Is(err, tt.err) || err == nil && (b.Model != "" || b.Input < 1) {
			t.Errorf("%v %q %q: %+v, %v; want %v", tt.d, tt.kind, tt.in, b, err, tt.err)
		}
	}
}
