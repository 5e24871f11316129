package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/events"
	"weir/model"
)

// outputs holds one value of every output as encode, decode and value.
func outputs() map[string]any {
	return map[string]any{"out-limits": sampleLimits(), "out-days": sampleDays(), "out-lease": sampleLease(), "out-scarce": sampleScarce(), "out-term": sampleTerm(), "out-config": sampleConfig()}
}

// encodeAny encodes a fact, or an output when the name says so.
func encodeAny(name string, v any) []byte {
	switch v := v.(type) {
	case *model.LimitSet:
		return events.EncodeLimits(nil, v)
	case *model.Lease:
		return events.EncodeLease(nil, v)
	case *model.TermNotice:
		return events.EncodeTerm(nil, v)
	case *model.Config:
		if strings.HasPrefix(name, "out-") {
			return events.EncodeConfig(nil, 88_000, v)
		}
	}
	return events.Encode(nil, v.(model.Fact))
}

func decodeAny(name string, data []byte) (any, error) {
	switch name {
	case "out-limits", "out-days":
		return events.DecodeLimits(data)
	case "out-lease", "out-scarce":
		return events.DecodeLease(data)
	case "out-term":
		return events.DecodeTerm(data)
	case "out-config":
		_, c, err := events.DecodeConfig(data)
		return c, err
	}
	return events.Decode(data)
}

func allSamples() map[string]any {
	all := outputs()
	for name, f := range samples() {
		all[name] = f
	}
	return all
}

// TestSamplesAreFull wants every field of every type to be set in some sample,
// so that a field added to the model cannot be forgotten in the codec.
func TestSamplesAreFull(t *testing.T) {
	set := make(map[string]bool)
	for _, v := range allSamples() {
		note(reflect.ValueOf(v), set)
	}
	for field, ok := range set {
		if !ok {
			t.Errorf("%s is zero in every sample", field)
		}
	}
	if len(set) < 150 {
		t.Errorf("only %d fields were looked at", len(set))
	}
}

// note records, for every field reached from v, whether it was ever not zero.
func note(v reflect.Value, set map[string]bool) {
	switch v.Kind() { //nolint:exhaustive // facts hold no other kinds
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			note(v.Elem(), set)
		}
	case reflect.Slice:
		for i := range v.Len() {
			note(v.Index(i), set)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			set[name] = set[name] || !v.Field(i).IsZero()
			note(v.Field(i), set)
		}
	default:
	}
}

// TestEveryField sets one field after another of an Attempt and of the reports
// beside it, so that a field added to the model cannot be forgotten here.
func TestEveryField(t *testing.T) {
	base := func() *model.Attempts {
		return &model.Attempts{
			Source:   model.Source{Agent: "a", Boot: 1, Seq: 1, Span: 1},
			Channels: make([]model.ChannelReport, 4),
			Pools:    make([]model.PoolReport, 1),
			Attempts: []model.Attempt{{Class: model.ClassOK, RetryAfter: -1}},
		}
	}
	parts := map[string]func(*model.Attempts) reflect.Value{
		"attempt": func(a *model.Attempts) reflect.Value { return reflect.ValueOf(&a.Attempts[0]).Elem() },
		"channel": func(a *model.Attempts) reflect.Value { return reflect.ValueOf(&a.Channels[1]).Elem() },
		"pool":    func(a *model.Attempts) reflect.Value { return reflect.ValueOf(&a.Pools[0]).Elem() },
		"report":  func(a *model.Attempts) reflect.Value { return reflect.ValueOf(a).Elem() },
		"source":  func(a *model.Attempts) reflect.Value { return reflect.ValueOf(&a.Source).Elem() },
	}
	for part, of := range parts {
		for i := range of(base()).NumField() {
			name := of(base()).Type().Field(i).Name
			if name == "Source" || name == "Span" { // a report always occupies one number
				continue
			}
			want := base()
			if !set(of(want).Field(i)) {
				continue
			}
			got, err := events.Decode(events.Encode(nil, want))
			if err != nil {
				t.Errorf("%s.%s: %v", part, name, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s.%s (-want +got):\n%s", part, name, diff)
			}
		}
	}
}

// set gives a field another legal value; false for a list of structs, whose
// own fields are set one by one.
func set(v reflect.Value) bool {
	switch v.Kind() { //nolint:exhaustive // facts hold no other kinds
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		if v.Type().Elem() != reflect.TypeFor[model.LimitHint]() {
			return false
		}
		v.Set(reflect.ValueOf([]model.LimitHint{{Dimension: model.DimDay, Limit: 1, Remaining: 2, Reset: 3}}))
	case reflect.Int64:
		v.SetInt(2)
	default:
		v.SetUint(1)
	}
	return true
}

func TestUnknownKind(t *testing.T) {
	for _, data := range [][]byte{{0x10, 99, 1, 2, 3}, {0x73, 99}, {0x1f, 9, 0}} {
		f, err := events.Decode(data)
		if err != nil || f.Kind() != model.Kind(data[1]) {
			t.Errorf("Decode(%x) = %v, %v; want an unknown fact of kind %d", data, f, err, data[1])
		}
		again, err := events.Decode(events.Encode(nil, f))
		if err != nil || again.Kind() != f.Kind() {
			t.Errorf("encoded again: %v, %v", again, err)
		}
	}
}

// TestNewerAdditions appends what a newer version of the same generation may
// append, at the end of a section and as a section of its own.
func TestNewerAdditions(t *testing.T) {
	tick := events.Encode(nil, &model.Tick{Term: 3, Elapsed: 5})
	newer := []byte{tick[0] | 15, tick[1], tick[2] + 2, tick[3], tick[4], 0xff, 0xff, 3, 1, 2, 3}
	got, err := events.Decode(newer)
	if want := (&model.Tick{Term: 3, Elapsed: 5}); err != nil || !cmp.Equal(got, model.Fact(want)) {
		t.Errorf("newer tick: %v, %v", got, err)
	}
	newer[0] = tick[0]
	if _, err := events.Decode(newer); err == nil {
		t.Error("additions in an entry of this version are accepted")
	}

	batch := events.Encode(nil, sampleNext())
	batch[0] |= 15
	batch = append(batch, 2, 0xaa, 0xbb)
	if got, err := events.Decode(batch); err != nil || !cmp.Equal(got, model.Fact(sampleNext())) {
		t.Errorf("newer report: %v", err)
	}
	limits := events.EncodeLimits(nil, sampleDays())
	limits[0] |= 15
	if got, err := events.DecodeLimits(append(limits, 1, 0)); err != nil || !cmp.Equal(got, sampleDays()) {
		t.Errorf("newer limits: %v", err)
	}
}

func TestNewerGeneration(t *testing.T) {
	data := events.Encode(nil, &model.Lead{Term: 1})
	data[0] = 0x20
	_, err := events.Decode(data)
	var fault *events.DecodeError
	if !errors.As(err, &fault) || fault.Kind != "lead" || fault.Version != 0x20 {
		t.Errorf("Decode = %v; want an error that names kind and version", err)
	}
}

// TestMalformed goes through every truncation and many single faults of every
// sample: an error with an offset inside the entry, never a panic.
func TestMalformed(t *testing.T) {
	for name, v := range allSamples() {
		data := encodeAny(name, v)
		for n := range data {
			if _, err := decodeAny(name, data[:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes decodes", name, n, len(data))
			} else {
				checkFault(t, name, err, n)
			}
		}
		for i := range data {
			for _, c := range []byte{0, 0x7f, 0x80, 0xff, data[i] ^ 1} {
				bad := bytes.Clone(data)
				bad[i] = c
				if _, err := decodeAny(name, bad); err != nil {
					checkFault(t, name, err, len(bad))
				}
			}
		}
	}
}

func checkFault(t *testing.T, name string, err error, size int) {
	t.Helper()
	fault, ok := errors.AsType[*events.DecodeError](err)
	if !ok {
		t.Errorf("%s: %v is no DecodeError", name, err)
	} else if fault.Offset < 0 || fault.Offset > size || fault.Reason == "" {
		t.Errorf("%s of %d bytes: %v", name, size, err)
	}
}

func TestRefused(t *testing.T) {
	report := func(change func(*model.Attempts)) []byte {
		a := sampleAttempts()
		change(a)
		return events.Encode(nil, a)
	}
	config := func(change func(*model.Config)) []byte {
		c := sampleConfig()
		change(c)
		return events.Encode(nil, c)
	}
	for name, data := range map[string][]byte{
		"empty":           {},
		"one byte":        {0x10},
		"kind zero":       {0x10, 0},
		"an output":       events.EncodeTerm(nil, sampleTerm()),
		"no agent":        report(func(a *model.Attempts) { a.Agent = "" }),
		"agent control":   report(func(a *model.Attempts) { a.Agent = "control" }),
		"agent with dot":  report(func(a *model.Attempts) { a.Agent = "a.b" }),
		"number zero":     report(func(a *model.Attempts) { a.Seq = 0 }),
		"huge number":     report(func(a *model.Attempts) { a.Seq = math.MaxUint64 }),
		"no class":        report(func(a *model.Attempts) { a.Attempts[0].Class = 0 }),
		"unknown class":   report(func(a *model.Attempts) { a.Attempts[0].Class = 9 }),
		"priority 3":      report(func(a *model.Attempts) { a.Attempts[0].Priority = 3 }),
		"unknown scope":   report(func(a *model.Attempts) { a.Attempts[0].Scope = 3 }),
		"no such channel": report(func(a *model.Attempts) { a.Attempts[0].Channel = 2 }),
		"mode 2":          report(func(a *model.Attempts) { a.Mode = 2 }),
		"many attempts":   report(func(a *model.Attempts) { a.Attempts = make([]model.Attempt, 5000) }),
		"too large": report(func(a *model.Attempts) {
			a.Attempts = typical(4096).Attempts
			a.Channels = make([]model.ChannelReport, 100_000)
		}),
		"same name twice": config(func(c *model.Config) { c.Channels = append(c.Channels, c.Channels...) }),
		"same group":      config(func(c *model.Config) { c.Channels[0].Groups = []string{"a", "a"} }),
		"span zero":       events.Encode(nil, &model.Summary{Source: model.Source{Agent: "a", Seq: 1}}),
		"span too far":    events.Encode(nil, &model.Summary{Source: model.Source{Agent: "a", Seq: 5, Span: math.MaxInt64}}),
		"command zero":    events.Encode(nil, &model.Command{}),
		"long number":     {0x10, byte(model.KindTick), 3, 0x81, 0x00, 0},
		"over 64 bits":    {0x10, byte(model.KindTick), 12, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0},
		"absurd count":    {0x10, byte(model.KindSummary), 7, 1, 'a', 1, 1, 0, 1, 9, 0xff, 0xff, 0xff, 0x7f, 0},
	} {
		f, err := events.Decode(data)
		if err == nil {
			t.Errorf("%s: decodes to %v", name, f)
			continue
		}
		checkFault(t, name, err, len(data))
	}
	for name, l := range map[string]*model.LimitSet{
		"cut by zero":   {Channels: []model.ChannelLimit{{Cuts: []model.Cut{{Num: 0, Den: 0}}}}},
		"cut that adds": {Channels: []model.ChannelLimit{{Cuts: []model.Cut{{Num: 3, Den: 2}}}}},
	} {
		if _, err := events.DecodeLimits(events.EncodeLimits(nil, l)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := events.DecodeLease(events.EncodeTerm(nil, sampleTerm())); err == nil {
		t.Error("a term is taken for a lease")
	}
}

// TestClamped shows what the encoder does with values that cannot be.
func TestClamped(t *testing.T) {
	a := sampleAttempts()
	at := &a.Attempts[0]
	at.Age, at.Took, at.Queued, at.FirstToken = -1, -1, -1, -1
	at.Reserved, at.In, at.Cached, at.Out, at.RetryAfter = -1, -1, -1, -1, -7
	at.Code = strings.Repeat("x", 100)
	at.Hints = make([]model.LimitHint, 20)
	a.Pools[0].UsedTokens = math.MinInt64
	got, err := events.Decode(events.Encode(nil, a))
	if err != nil {
		t.Fatal(err)
	}
	b := got.(*model.Attempts).Attempts[0]
	if b.Age|b.Took|b.Queued|b.FirstToken != 0 || b.Reserved|b.In|b.Cached|b.Out != 0 || b.RetryAfter != -1 {
		t.Errorf("negative numbers came back: %+v", b)
	}
	if len(b.Code) != 64 || len(b.Hints) != 8 {
		t.Errorf("code of %d bytes, %d hints; want 64 and 8", len(b.Code), len(b.Hints))
	}
	if used := got.(*model.Attempts).Pools[0].UsedTokens; used != 0 {
		t.Errorf("used %d", used)
	}
}

func TestExtremes(t *testing.T) {
	a := sampleAttempts()
	for i := range a.Attempts {
		at := &a.Attempts[i]
		at.Request = []uint64{0, math.MaxUint64, 1 << 63}[i]
		at.Age = []model.Nanos{0, math.MaxInt64, 0}[i]
		at.Took, at.Reserved, at.RetryAfter = math.MaxInt64, math.MaxInt64, math.MaxInt64
		at.Epoch, at.Probe, at.Try, at.Tier, at.Status = math.MaxUint64, math.MaxUint64, 255, 255, 65535
		at.Hints = []model.LimitHint{{Limit: math.MaxInt64, Remaining: math.MaxInt64, Reset: math.MaxInt64}}
	}
	got, err := events.Decode(events.Encode(nil, a))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(model.Fact(a), got); diff != "" {
		t.Error(diff)
	}
}

// TestConfigCanonical writes the lists of a configuration in another order.
func TestConfigCanonical(t *testing.T) {
	c := sampleConfig()
	want := events.Encode(nil, c)
	slices.Reverse(c.Channels)
	slices.Reverse(c.Groups)
	slices.Reverse(c.Channels[1].Groups)
	before, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := events.Encode(nil, c); !bytes.Equal(got, want) {
		t.Errorf("another order gives other bytes:\n%x\n%x", got, want)
	}
	if after, err := json.Marshal(c); err != nil || !bytes.Equal(before, after) {
		t.Errorf("encoding changed the configuration, error %v", err)
	}
}

func TestParamsOutOfRange(t *testing.T) {
	p := &model.ParamSet{Params: model.DefaultParams()}
	p.Params.CutShare = 5 * model.One
	got, err := events.Decode(events.Encode(nil, p))
	if err != nil {
		t.Fatal(err)
	}
	params := got.(*model.ParamSet).Params
	if err := params.Check(); err != nil {
		t.Error(err)
	}
	if params.CutShare <= model.DefaultParams().CutShare {
		t.Errorf("cut share %d, want the upper end of its range", params.CutShare)
	}
}

// TestParamsByName changes one name: it is skipped, and the parameter it was
// has its default.
func TestParamsByName(t *testing.T) {
	p := &model.ParamSet{Params: model.DefaultParams()}
	p.Params.CutShare = 900_000
	data := bytes.Replace(events.Encode(nil, p), []byte("cut_share"), []byte("cut_shard"), 1)
	got, err := events.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if share := got.(*model.ParamSet).Params.CutShare; share != model.DefaultParams().CutShare {
		t.Errorf("cut share %d, want the default", share)
	}
}

// TestDecoderReuse decodes reports of all sizes with one decoder: each equals
// what a fresh one makes of it.
func TestDecoderReuse(t *testing.T) {
	d := events.NewDecoder()
	reports := []*model.Attempts{typical(100), sampleAttempts(), typical(3), {Source: model.Source{Agent: "a", Seq: 1, Span: 1}}, typical(40), sampleAttempts()}
	for i, want := range reports {
		got, err := d.Decode(events.Encode(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(model.Fact(want), got); diff != "" {
			t.Errorf("report %d (-want +got):\n%s", i, diff)
		}
	}
	if _, err := d.Decode([]byte{0x10, 1, 200}); err == nil {
		t.Error("garbage decodes")
	}
	if got, err := d.Decode(events.Encode(nil, reports[0])); err != nil || !cmp.Equal(model.Fact(reports[0]), got) {
		t.Errorf("after an error: %v", err)
	}
}

func TestDecoderAllocates(t *testing.T) {
	data := events.Encode(nil, typical(100))
	d := events.NewDecoder()
	n := testing.AllocsPerRun(50, func() {
		if _, err := d.Decode(data); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per report, want 0", n)
	}
	buf := make([]byte, 0, 16<<10)
	a := typical(100)
	if n := testing.AllocsPerRun(50, func() { events.Encode(buf, a) }); n != 0 {
		t.Errorf("%v allocations per encoding, want 0", n)
	}
}

// TestDecoderBounded feeds a decoder ever new names.
func TestDecoderBounded(t *testing.T) {
	d := events.NewDecoder()
	for i := range 20_000 {
		a := typical(1)
		a.Version = strings.Repeat(string(rune('a'+i%26)), 1+i%200) + unlike(i)
		got, err := d.Decode(events.Encode(nil, a))
		if err != nil || got.(*model.Attempts).Version != a.Version {
			t.Fatal(err)
		}
	}
	if n, size := events.Held(d); n > 4096 || size > 256<<10 {
		t.Errorf("decoder holds %d strings of %d bytes", n, size)
	}
}

func unlike(i int) string { return string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}) }

func TestRecord(t *testing.T) {
	d := events.NewDecoder()
	report := events.Encode(nil, sampleAttempts())
	tick := events.Encode(nil, &model.Tick{Term: 1})
	for name, c := range map[string]struct {
		subject string
		data    []byte
		ok      bool
	}{
		"own subject":           {events.LogSubject("f", "agent-0"), report, true},
		"control":               {events.ControlSubject("f"), tick, true},
		"another's subject":     {events.LogSubject("f", "agent-1"), report, false},
		"agent that commands":   {events.LogSubject("f", "agent-0"), tick, false},
		"report of the control": {events.ControlSubject("f"), report, false},
		"foreign subject":       {"orders.new", report, false},
		"garbage":               {events.LogSubject("f", "agent-0"), []byte("{}"), false},
	} {
		rec, err := d.Record(events.Entry{Seq: 7, Time: 9, Subject: c.subject, Data: c.data})
		if ok := err == nil && rec.Fact != nil; ok != c.ok || rec.Seq != 7 || rec.Time != 9 {
			t.Errorf("%s: %+v, %v", name, rec, err)
		}
	}
}

func TestSize(t *testing.T) {
	const most = 48
	empty := len(events.Encode(nil, typical(0)))
	size := len(events.Encode(nil, typical(100)))
	t.Logf("%d bytes, %.1f for an attempt and %d for the report", size, float64(size-empty)/100, empty)
	if size > 100*most {
		t.Errorf("%d bytes for 100 attempts, want at most %d each", size, most)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples() {
		f.Add(events.Encode(nil, s))
	}
	f.Add(events.Encode(nil, typical(20)))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := events.Decode(data)
		if err != nil {
			return
		}
		again := events.Encode(nil, first)
		second, err := events.Decode(again)
		if err != nil {
			t.Fatalf("encoded again: %v", err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatal(diff)
		}
		if _, ok := first.(*model.Config); ok && data[0] == again[0] && !bytes.Equal(data, again) {
			t.Fatalf("configuration has two encodings:\n%x\n%x", data, again)
		}
	})
}

func FuzzOutput(f *testing.F) {
	for name, o := range outputs() {
		f.Add(encodeAny(name, o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name := range outputs() {
			first, err := decodeAny(name, data)
			if err != nil {
				continue
			}
			second, err := decodeAny(name, encodeAny(name, first))
			if err != nil {
				t.Fatalf("%s encoded again: %v", name, err)
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
		}
	})
}
