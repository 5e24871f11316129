package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/events/journal"
	"weir/model"
)

// logMaker makes a journal of a fleet with one channel and one agent.
type logMaker struct {
	t       *testing.T
	entries []events.Entry
	now     model.Nanos
	reports uint64
}

const evening = model.Nanos(1_796_072_400) * model.Second // 2026-11-30T21:00:00Z

func newLogMaker(t *testing.T) *logMaker {
	m := &logMaker{t: t, now: evening}
	m.add(&model.Config{Fleet: "test", Channels: []model.ChannelConfig{{Name: "main"}, {Name: "spare"}}})
	m.add(&model.Lead{Term: 1, Controller: "c", Laws: model.LawVersion})
	return m
}

// add appends a fact.
func (m *logMaker) add(f model.Fact) uint64 {
	subject := events.ControlSubject("test")
	if _, ok := f.(*model.Attempts); ok {
		subject = events.LogSubject("test", "a")
	}
	m.raw(subject, events.Encode(nil, f))
	return uint64(len(m.entries))
}

func (m *logMaker) raw(subject string, data []byte) {
	m.entries = append(m.entries, events.Entry{Seq: uint64(len(m.entries) + 1), Time: m.now, Subject: subject, Data: data})
}

// report appends attempts of the channel main.
func (m *logMaker) report(inflight uint32, attempts ...model.Attempt) uint64 {
	m.reports++
	for i := range attempts {
		if attempts[i].RetryAfter == 0 {
			attempts[i].RetryAfter = -1
		}
	}
	return m.add(&model.Attempts{
		Source:   model.Source{Agent: "a", Boot: 1, Seq: m.reports, Span: 1},
		Channels: []model.ChannelReport{{Channel: "main", InFlight: inflight, Accepted: inflight}},
		Attempts: attempts,
	})
}

// write writes the journal and returns its path.
func (m *logMaker) write() string {
	m.t.Helper()
	var b bytes.Buffer
	w, err := journal.NewWriter(&b, journal.Header{Fleet: "test"})
	for _, e := range m.entries {
		if err == nil {
			err = w.Write(e)
		}
	}
	if err == nil {
		err = w.Close()
	}
	path := filepath.Join(m.t.TempDir(), "j.weir")
	if err == nil {
		err = os.WriteFile(path, b.Bytes(), 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return path
}

// evil is a journal of an evening: a cut at 21:01, an opening at 21:02.
func evil(t *testing.T) (path string, cut, open uint64) {
	m := newLogMaker(t)
	m.now += model.Minute
	cut = m.report(6, model.Attempt{Request: 7, Tenant: "x,\"y", Try: 2, Class: model.ClassOverloaded, Status: 200, Code: "2064", Took: 50 * model.Millisecond, Age: model.Second})
	m.now += model.Minute
	open = m.report(0,
		model.Attempt{Request: 8, Tenant: "content", Try: 1, Class: model.ClassOK, Status: 200, Took: 1500 * model.Millisecond, In: 4000, Out: 650},
		model.Attempt{Request: 9, Tenant: "content", Try: 1, Class: model.ClassAuth, Status: 401, Code: "invalid_api_key"})
	m.entries = append(m.entries, m.entries[len(m.entries)-1]) // sent again
	m.entries[len(m.entries)-1].Seq++
	m.now += model.Second
	m.raw(events.ControlSubject("test"), []byte("nonsense"))
	return m.write(), cut, open
}

func TestLogExplain(t *testing.T) {
	path, cut, open := evil(t)
	for _, tt := range []struct {
		at     string
		record uint64
		want   []string
		never  string
	}{
		{"21:01:30", cut, []string{"slots, epoch 1; ", "6 others in flight", "(code 2064)", "with 1 overloaded (2064)", "nothing opened it"}, "credential"},
		{"2026-11-30T21:00:30Z", 2, []string{"epoch 0", "no cut so far"}, "2064"},
		{"30s", 2, []string{"no cut so far"}, "2064"},
		{"--at=-61s", cut, []string{"epoch 1"}, "credential"},
		{"3", cut, []string{"epoch 1"}, "credential"},
		{"", open + 2, []string{"breaker  misconfigured", "the provider refused the credential (code invalid_api_key); closed until an operator resumes it", "1 ok, 1 auth (invalid_api_key)"}, ""},
	} {
		args := []string{"log", "explain", "main", path}
		switch {
		case strings.HasPrefix(tt.at, "--"):
			args = append(args, tt.at)
		case tt.at != "":
			args = append(args, "--at", tt.at)
		}
		got := weir(t, "", args...)
		if got.code != exitOK {
			t.Errorf("%s: exit code %d: %s", tt.at, got.code, got.stderr)
		}
		for _, text := range tt.want {
			if !strings.Contains(got.stdout, text) {
				t.Errorf("at %q nothing says %q:\n%s", tt.at, text, got.stdout)
			}
		}
		if tt.never != "" && strings.Contains(got.stdout, tt.never) {
			t.Errorf("at %q something says %q:\n%s", tt.at, tt.never, got.stdout)
		}
		var x struct {
			Seq   uint64
			Parts []struct{ Part, Stands, Because string }
		}
		got = weir(t, "", append(args, "--json")...)
		if err := json.Unmarshal([]byte(got.stdout), &x); err != nil || x.Seq != tt.record || len(x.Parts) != 6 {
			t.Errorf("at %q: record %d, %d parts, %v; want record %d", tt.at, x.Seq, len(x.Parts), err, tt.record)
		}
	}
	got := weir(t, "", "log", "explain", "main", path, "--last", "1")
	if !strings.Contains(got.stdout, "events before these") || strings.Contains(got.stdout, "2064)\n") {
		t.Errorf("one event:\n%s", got.stdout)
	}
	weir(t, "", "log", "explain", "other", path).wantFaults(t, `no channel "other" at record 6; there are main, spare`)
	weir(t, "", "log", "explain", "main", path, "--at", "2026-11-30T20:00:00Z").wantFaults(t, "no record up to")
	weir(t, "", "log", "explain", "main", path, "--at", "soon").wantFaults(t, "--at=soon: want a time")
	weir(t, "", "log", "explain", "main", path, "--last", "0").wantFaults(t, "--last=0")
	weir(t, "", "log", "explain", "main", "/nowhere").wantFaults(t, "stat /nowhere")
}

// TestLogExplainDamage cuts a journal off anywhere and changes bytes of it.
func TestLogExplainDamage(t *testing.T) {
	t.Parallel()
	path, _, _ := evil(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 13 {
		torn, bad := file(t, "torn.weir", string(whole[:at])), slices.Clone(whole)
		bad[at] ^= 0x40
		for _, args := range [][]string{{torn}, {torn, "--at=-1m"}, {file(t, "bad.weir", string(bad))}} {
			got := weir(t, "", append([]string{"log", "explain", "main"}, args...)...)
			if got.code != exitOK && (got.code != exitUsage || len(got.faults()) != 1) {
				t.Fatalf("byte %d: exit code %d: %s", at, got.code, got.stderr)
			}
		}
	}
}

func TestLogRequests(t *testing.T) {
	path, _, _ := evil(t)
	got := weir(t, "", "log", "export", "-", "--as", "requests", "--journal", path)
	want := `{"request_id":"0000000000000007","tenant":"x,\"y","channel":"main","input_tokens":0,"output_tokens":0,"http_status":200,"error_class":"overloaded","latency_ms":50,"attempt":2,"retryable":true}
{"request_id":"0000000000000008","tenant":"content","channel":"main","input_tokens":4000,"output_tokens":650,"http_status":200,"error_class":"","latency_ms":1500,"attempt":1,"retryable":false}
{"request_id":"0000000000000009","tenant":"content","channel":"main","input_tokens":0,"output_tokens":0,"http_status":401,"error_class":"auth","latency_ms":0,"attempt":1,"retryable":false}
`
	if got.code != exitOK || got.stdout != want {
		t.Errorf("exit code %d: %s\n%s, want\n%s", got.code, got.stderr, got.stdout, want)
	}
	out := filepath.Join(t.TempDir(), "calls.csv")
	if got = weir(t, "", "log", "export", out, "--as", "requests", "--times", "--journal", path); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil || len(rows) != 4 || len(rows[0]) != 11 || rows[1][1] != `x,"y` || rows[1][10] != "2026-11-30T21:00:58.950000Z" {
		t.Errorf("%v, %v", rows, err)
	}
	weir(t, "", "log", "export", out, "--journal", path).wantFaults(t, "--journal goes with --as requests")
	weir(t, "", "log", "export", out, "--times").wantFaults(t, "--times goes with --as requests")
}
