package calibrate

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"weir/model"
)

// TestRead reads the same two calls in every form that needs no mapping: a
// success of 1.5 s and a refusal of 50 ms.
func TestRead(t *testing.T) {
	at := time.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)
	for name, text := range map[string]string{
		"ten fields and a time": `request_id,tenant,channel,input_tokens,output_tokens,http_status,error_class,latency_ms,attempt,retryable,timestamp
7,"a, ""b""",m,4000,650,200,,1500,1,false,2026-11-30T21:00:00Z
8,x,m,4000,0,429,rate_limited,50,2,true,2026-11-30T21:00:01Z
`,
		"json lines": `{"request_id":"7","tenant":"a, \"b\"","channel":"m","input_tokens":4000,"output_tokens":650,"http_status":200,"error_class":"","latency_ms":1500,"attempt":1,"retryable":false,"timestamp":"2026-11-30T21:00:00Z"}

{"request_id":"8","tenant":"x","channel":"m","input_tokens":4000,"output_tokens":0,"http_status":429,"error_class":"rate_limited","latency_ms":50,"attempt":2,"retryable":true,"timestamp":1796072401}
`,
		"litellm": `{"id":"7","startTime":1796072400.0,"endTime":1796072401.5,"model_id":"m","prompt_tokens":4000,"completion_tokens":650,"status":"success","end_user":"a, \"b\"","error_information":{"error_code":"","error_class":""}}
{"id":"8","startTime":1796072401.0,"endTime":1796072401.05,"model_id":"m","prompt_tokens":4000,"completion_tokens":0,"status":"failure","end_user":"x","error_information":{"error_code":"429","error_class":"RateLimitError"}}
`,
		"opentelemetry": `{"traceId":"7","startTimeUnixNano":"1796072400000000000","endTimeUnixNano":"1796072401500000000","attributes":[{"key":"gen_ai.request.model","value":{"stringValue":"m"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"4000"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":650}},{"key":"service.name","value":{"stringValue":"a, \"b\""}}]}
{"trace_id":"8","start_time_unix_nano":"1796072401000000000","end_time_unix_nano":"1796072401050000000","attributes":{"gen_ai.request.model":"m","gen_ai.usage.input_tokens":4000,"gen_ai.usage.output_tokens":0,"error.type":"429","service.name":"x"}}
`,
	} {
		t.Run(name, func(t *testing.T) {
			l := &Log{}
			res, err := Read(strings.NewReader(text), l, ReadOptions{})
			if err != nil || res.Calls != 2 || res.Broken != 0 || l.Len() != 2 {
				t.Fatalf("%+v, %v", res, err)
			}
			ok, no := l.calls[0], l.calls[1]
			if ok.sent != model.Nanos(at.UnixNano()) || ok.took != 1500*model.Millisecond || ok.input != 4000 || ok.output != 650 || model.Class(ok.class) != model.ClassOK || l.names.list[ok.tenant] != `a, "b"` || l.channels.list[ok.channel] != "m" {
				t.Errorf("success %+v", ok)
			}
			if (no.took-50*model.Millisecond).Duration().Abs() > time.Microsecond || no.sent-ok.sent != model.Second || model.Class(no.class) != model.ClassRateLimited || no.status != 429 && name != "opentelemetry" || ok.request == no.request {
				t.Errorf("refusal %+v", no)
			}
		})
	}
}

func TestReadMapped(t *testing.T) {
	l := &Log{}
	res, err := Read(strings.NewReader("when;x,how_long,to,who\n2026-11-30 21:00:01.5,2s,m,a\n"), l, ReadOptions{
		Columns: map[Field]string{FieldTime: "when;x", FieldLatency: "how_long", FieldChannel: "to", FieldTenant: "who"}, TimeIsEnd: true,
	})
	if err != nil || res.Calls != 1 || l.calls[0].sent != epoch-model.Second/2 || l.calls[0].took != 2*model.Second {
		t.Errorf("%+v, %v, %+v", res, err, l.calls)
	}
	if _, err := Read(strings.NewReader("a,b\n1,2\n"), &Log{}, ReadOptions{}); !errors.Is(err, ErrNoTime) {
		t.Errorf("without a time: %v", err)
	}
	if _, err := Read(strings.NewReader("time,b\n1,2\n"), &Log{}, ReadOptions{Columns: map[Field]string{FieldTenant: "c"}}); err == nil || !strings.Contains(err.Error(), `no column "c"`) {
		t.Errorf("with a column that is not there: %v", err)
	}
}

// TestReadBroken gives lines that are no calls among good ones.
func TestReadBroken(t *testing.T) {
	good := `{"timestamp":1796072400,"latency_ms":5,"http_status":200}` + "\n"
	bad := []string{
		`{"timestamp":`, `[]`, `"x"`, `{"timestamp":"soon"}`, `{"latency_ms":5}`, `{"timestamp":1796072400,"latency_ms":-5}`, `{"timestamp":1796072400,"latency_ms":1e300}`,
		`{"timestamp":1796072400,"input_tokens":-4}`, `{"timestamp":1796072400,"input_tokens":"many"}`, `{"timestamp":1e300}`, `{"timestamp":-5}`,
		`{"timestamp":{"a":1}}`, strings.Repeat(`{"a":`, 5000) + strings.Repeat("}", 5000), `{"x":"` + strings.Repeat("y", maxLine) + `"}`, "\x00\x01\x02",
		`{"timestamp":1796072400,"http_status":150}`,
	}
	text := good
	for _, b := range bad {
		text += b + "\n" + good
	}
	l := &Log{}
	res, err := Read(strings.NewReader(text), l, ReadOptions{})
	if err != nil || int(res.Broken) != len(bad) || int(res.Calls) != len(bad)+1 || l.Len() != len(bad)+1 {
		t.Fatalf("%+v, %v", res, err)
	}
	for i, b := range res.First {
		if int(b.Line) != 2*i+2 || b.Reason == "" || len(b.Reason) > 300 {
			t.Errorf("broken line %+v, want line %d", b, 2*i+2)
		}
	}
	for _, row := range []string{`"unclosed,1`, `"a"b,1`, strings.Repeat(",", maxColumns+1)} {
		res, err := Read(strings.NewReader("timestamp,latency_ms\n1796072400,1\n"+row+"\n1796072401,1\n"), &Log{}, ReadOptions{})
		if err != nil || res.Broken != 1 || res.Calls != 2 {
			t.Errorf("%.20q: %+v, %v", row, res, err)
		}
	}
}

// endless is a line that does not end.
type endless struct{ left int64 }

func (e *endless) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), e.left))
	for i := range b[:n] {
		b[i] = 'x'
	}
	e.left -= int64(n)
	return n, nil
}

// TestReadPacked unpacks a log, one that is cut off, and a bomb whose one line
// does not end, in little memory.
func TestReadPacked(t *testing.T) {
	pack := func(r io.Reader) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.Copy(z, r); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, `{"timestamp":%d,"latency_ms":%d,"http_status":200}`+"\n", 1796072400+i, i%977)
	}
	whole := pack(strings.NewReader(text.String()))
	l := &Log{}
	if res, err := Read(bytes.NewReader(whole), l, ReadOptions{}); err != nil || res.Calls != 20_000 {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := Read(bytes.NewReader(whole[:len(whole)/2]), &Log{}, ReadOptions{}); err != nil || res.Calls < 5000 || res.Broken != 1 {
		t.Errorf("cut off: %+v, %v", res, err)
	}
	bomb := pack(&endless{left: 64 << 20})
	res, err := Read(bytes.NewReader(bomb), &Log{}, ReadOptions{})
	if err != nil || res.Calls != 0 || res.Broken != 1 {
		t.Errorf("bomb: %+v, %v", res, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("timestamp,latency_ms\n1796072400,1\n"))
	f.Add([]byte(`{"timestamp":1796072400,"attributes":[{"key":"a","value":{"x":1}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &Log{}
		res, err := Read(bytes.NewReader(data), l, ReadOptions{})
		if err == nil && res.Calls+res.Broken != res.Lines {
			t.Errorf("%+v", res)
		}
		if l.Len() > 0 {
			if _, err := Build(l, Options{}); err != nil && !strings.Contains(err.Error(), "31 days") {
				t.Error(err)
			}
		}
	})
}

// made is a log of so many lines, made while it is read.
type made struct {
	lines, n int
	rest     []byte
}

func (m *made) Read(b []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.n == m.lines {
			return 0, io.EOF
		}
		i := m.n
		m.n++
		class, status, took := "", 200, 800+i%700
		if i%10 == 9 {
			class, status, took = "overloaded", 503, 50
		}
		m.rest = fmt.Appendf(m.rest[:0], `{"request_id":"%d","tenant":"t%d","channel":"m","input_tokens":%d,"output_tokens":%d,"http_status":%d,"error_class":"%s","latency_ms":%d,"attempt":1,"retryable":true,"timestamp":%d}`+"\n",
			i, i%5, 500+i%4000, 50+i%400, status, class, took, 1796072400000+i*20)
	}
	n := copy(b, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// BenchmarkRead reads a million lines, BenchmarkBuild estimates from them.
func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if _, err := Read(&made{lines: 1_000_000}, &Log{}, ReadOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	l := &Log{}
	if _, err := Read(&made{lines: 1_000_000}, l, ReadOptions{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Build(l, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
