package classify

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/model"
)

func hint(d model.Dimension, limit, remaining int64, reset model.Nanos) model.LimitHint {
	return model.LimitHint{Dimension: d, Limit: limit, Remaining: remaining, Reset: reset}
}

func TestHeaderLimits(t *testing.T) {
	const s = model.Second
	for name, tc := range map[string]struct {
		header http.Header
		want   []model.LimitHint
	}{
		"two dimensions": {http.Header{
			"X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"59"}, "X-Ratelimit-Reset-Requests": {"1s"},
			"X-Ratelimit-Limit-Tokens": {"150,000"}, "X-Ratelimit-Remaining-Tokens": {"149984"}, "X-Ratelimit-Reset-Tokens": {"6m0s"},
		}, []model.LimitHint{hint(model.DimRequests, 60, 59, s), hint(model.DimTokens, 150000, 149984, 360*s)}},
		"of a family": {http.Header{
			"Anthropic-Ratelimit-Input-Tokens-Limit": {"80000"}, "Anthropic-Ratelimit-Input-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Input-Tokens-Reset": {"2026-01-01T12:01:28Z"},
		}, []model.LimitHint{hint(model.DimTokens, 80000, 0, 88*s)}},
		"windows": {
			http.Header{"X-Ratelimit-Limit-Minute": {"9"}, "X-Ratelimit-Limit-Day": {"99"}},
			[]model.LimitHint{hint(model.DimRequests, 9, -1, -1), hint(model.DimDay, 99, -1, -1)},
		},
		"structured":   {http.Header{"Ratelimit": {`"api";r=0;t=55`}, "Ratelimit-Policy": {`"fixed window";"api";q=500;w=300`}}, []model.LimitHint{hint(model.DimRequests, 500, 0, 55*s)}},
		"older draft":  {http.Header{"Ratelimit": {"limit=10, remaining=2, reset=7"}}, []model.LimitHint{hint(model.DimRequests, 10, 2, 7*s)}},
		"nonsense":     {http.Header{"X-Ratelimit-Limit": {"many"}, "X-Ratelimit-Remaining": {"-3"}, "X-Ratelimit-Reset": {""}}, nil},
		"not a limit":  {http.Header{"X-Envoy-Ratelimited": {"true"}, "Date": {"x"}}, nil},
		"reset passed": {http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Reset": {"1767268000"}}, []model.LimitHint{hint(model.DimRequests, 5, -1, -1)}},
	} {
		var got []model.LimitHint
		for _, l := range headerLimits(tc.header, nil, noon) {
			got = append(got, l.hint)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHeaderLimitsAreBounded(t *testing.T) {
	h := http.Header{}
	for i := range 1000 {
		h.Set("X-Ratelimit-Limit-A"+strconv.Itoa(i), "1")
	}
	if n := len(headerLimits(h, nil, noon)); n != maxHints {
		t.Errorf("%d hints, want %d", n, maxHints)
	}
}

func TestTextCounts(t *testing.T) {
	for in, want := range map[string]counts{
		"TPM: Limit 30,000, Used 28,039, Requested 3906":   {30000, 28039, 3906, -1},
		"limited to 20 API calls / minute":                 {20, -1, -1, -1},
		"Rate limit of 10 per 60s":                         {10, -1, -1, -1},
		"your rate limit is 60 queries per minute":         {60, -1, -1, -1},
		"reached max RPM: 3, try again after 1 seconds":    {3, -1, -1, -1},
		"1分钟内最多请求60次":                                      {60, -1, -1, -1},
		"plan window (1500/1500 used)":                     {1500, 1500, -1, -1},
		"current: 12, limit: 10":                           {10, 12, -1, -1},
		"model qwen-2.5-72b-128k failed 3 times in 30 min": {-1, -1, -1, -1},
	} {
		if got := textCounts([]byte(in)); got != want {
			t.Errorf("textCounts(%q) = %+v, want %+v", in, got, want)
		}
	}
}
