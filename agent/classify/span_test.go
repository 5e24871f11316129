package classify

import (
	"net/http"
	"testing"
	"time"

	"weir/model"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestParseReset(t *testing.T) {
	const s, ms = model.Second, model.Millisecond
	for in, want := range map[string]model.Nanos{
		"0": 0, "15": 15 * s, "1.5": 1500 * ms, " 7 ": 7 * s, "120ms": 120 * ms, "1m12.5s": 72500 * ms, "2h3m": 7380 * s,
		"1 hour, 2 minutes and 3 seconds": 3723 * s, "00:01:30": 90 * s, "1.00:00:05": 86405 * s, "PT30S": 30 * s, "pt1m": 60 * s,
		"30 sec": 30 * s, "3 天": 3 * 24 * model.Hour, "毫秒": unsaid, "5 毫秒": 5 * ms,
		"2026-01-01T12:00:42Z": 42 * s, "2026-01-01 20:00:01 +0800 CST": s, "Thu, 01 Jan 2026 12:02:00 GMT": 120 * s,
		"2026-01-01T12:00:42": unsaid, "2026-01-01T11:00:00Z": unsaid,
		"1767268815": 15 * s, "1767268815000": 15 * s, "1767268815000000": 15 * s, "1767268815000000000": 15 * s, "1767268000": unsaid,
		"": unsaid, "soon": unsaid, "-5": unsaid, "+5": unsaid, "NaN": unsaid, "inf": unsaid, "1e3": unsaid, "0x10": unsaid, "5 apples": unsaid,
		"99999999999999999999999": unsaid, "1000000000": unsaid, "2764801": unsaid, "2764800": maxWait, "9999999d": unsaid, "12:3:4": unsaid, "1:02": unsaid,
	} {
		if got := parseReset(in, s, noon); got != want {
			t.Errorf("parseReset(%q) = %v, want %v", in, got, want)
		}
	}
	if got := parseReset("2026-01-01T12:00:42Z", s, time.Time{}); got != unsaid {
		t.Errorf("an instant without a clock gives %v, want none", got)
	}
}

func TestTextWait(t *testing.T) {
	const s = model.Second
	for in, want := range map[string]model.Nanos{
		"Please try again in 1m3.5s.":                      63500 * model.Millisecond,
		"wait 21 seconds before retrying":                  21 * s,
		"Retry-After: 20":                                  20 * s,
		"retry_after=17":                                   17 * s,
		"quota will be replenished in 1.02:00:00":          26 * model.Hour,
		"back off; available again within 5 minutes":       300 * s,
		"try again in 2s; or try again in 5s":              5 * s,
		"limited until 2026-01-01T12:00:09Z":               9 * s,
		"限额将在 2026-01-01 20:00:09 +0800 重置":                9 * s,
		"请 3 秒后重试":                                         3 * s,
		"请等待2分钟":                                           120 * s,
		"請求過於頻繁，請於 8 秒後重試":                                 8 * s,
		"Повторите попытку через 20 секунд":                20 * s,
		"30초 후 다시 시도해 주세요":                                 30 * s,
		"2分後に再試行してください":                                    120 * s,
		"Bitte in 12 Sekunden erneut versuchen":            12 * s,
		"Veuillez réessayer dans 3 minutes":                180 * s,
		"Inténtelo de nuevo en 15 segundos":                15 * s,
		"your key is blocked for 10 minutes":               600 * s,
		"12 Sekunden Rechenzeit verbraucht":                unsaid,
		"en 15 segundos se hicieron 3 llamadas":            unsaid,
		"60 requests per 60s":                              unsaid,
		"每 10 秒最多 5 次":                                     unsaid,
		"resets at 2026-01-01 20:00:09":                    unsaid,
		"created 2026-01-01T12:00:09Z":                     unsaid,
		"failed after 30s":                                 unsaid,
		"within the last 5 minutes":                        unsaid,
		"gave up after 3 retries in 30 slots, try in vain": unsaid,
		"try again in 400 days":                            unsaid,
	} {
		if got := textWait([]byte(in), noon); got != want {
			t.Errorf("textWait(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestHeaderWait(t *testing.T) {
	const s = model.Second
	for _, tc := range []struct {
		header http.Header
		want   model.Nanos
	}{
		{http.Header{}, unsaid},
		{http.Header{"Retry-After": {"3"}, "Retry-After-Ms": {"2750"}}, 2750 * model.Millisecond},
		{http.Header{"Retry-After": {"30"}, "Retry-After-Ms": {"500"}}, 30 * s},
		{http.Header{"Retry-After": {"2", "9"}}, 9 * s},
		{http.Header{"Retry-After": {"2, 9"}}, 9 * s},
		{http.Header{"Retry-After": {"Thu, 01 Jan 2026 12:00:05 GMT"}}, 5 * s},
		{http.Header{"Retry-After": {"Thu, 01 Jan 2026 11:00:05 GMT"}}, unsaid},
		{http.Header{"Retry-After": {"-1"}}, unsaid},
	} {
		if got := headerWait(tc.header, noon); got != tc.want {
			t.Errorf("headerWait(%v) = %v, want %v", tc.header, got, tc.want)
		}
	}
}
