package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCollector(t *testing.T) {
	const base, traces, none = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       string
		bad        bool
	}{
		{name: "nothing"},
		{name: "file", file: "http://a:4318", env: map[string]string{traces: "http://b:1/x", none: "none"}, want: "http://a:4318/v1/traces"},
		{name: "base", env: map[string]string{base: "http://b:4318/"}, want: "http://b:4318/v1/traces"},
		{name: "its own", env: map[string]string{base: "http://b:4318", traces: "http://b:1/x"}, want: "http://b:1/x"},
		{name: "switched off", env: map[string]string{base: "http://b:4318", traces: "http://b:1/x", none: "none"}},
		{name: "unfit", env: map[string]string{base: "b:4317"}, bad: true},
		{name: "with a secret", env: map[string]string{traces: "http://user:secret@b:4318/v1/traces"}, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := collector(tt.file, func(name string) string { return tt.env[name] })
			if (err != nil) != tt.bad || !tt.bad && got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestCollectorHeaders(t *testing.T) {
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":        "authorization=Bearer%20x, a = b ,none,=c,bad=%zz",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=c=d",
	}
	got := collectorHeaders(func(name string) string { return env[name] })
	if diff := cmp.Diff(map[string]string{"authorization": "Bearer x", "a": "c=d"}, got); diff != "" {
		t.Error(diff)
	}
}
