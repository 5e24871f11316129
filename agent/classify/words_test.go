package classify

import (
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for in, want := range map[string]string{
		"rate_limit_exceeded":                       " rate limit exceeded ",
		"RateLimitExceeded.EndpointTPMExceeded":     " rate limit exceeded endpoint tpm exceeded ",
		"Too  many\nrequests!":                      " too many requests ",
		"80,000 tokens/min, 3 / s, and/or":          " 80000 tokens per min 3 per s and or ",
		"see https://x.example/billing#token-limit": " see token limit ",
		"达到RPM上限，请重试":                               " 达到 rpm 上限 请重试 ",
		"系統繁忙，請稍後重試":                                " 系统繁忙 请稍后重试 ",
		"Превышен ЛИМИТ":                            " превышен лимит ",
		"isn’t":                                     " isn t ",
		"":                                          " ",
	} {
		if got := string(words(nil, []byte(in))); got != want {
			t.Errorf("words(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPhrase(t *testing.T) {
	far := strings.Repeat("x ", maxGap)
	for _, tc := range []struct {
		phrase, text string
		want         bool
	}{
		{"throttl", "request Throttled", true},
		{"throttl", "unthrottled", false},
		{"rate limit", "RATE-LIMIT", true},
		{"per minute", "calls/minute", true},
		{"model * not found", "the model `m` was not found", true},
		{"model * not found", "model x; model y not found", true},
		{"model * not found", "model " + far + "not found", false},
		{"model * not found", "not found: model", false},
		{"余额*不足", "账户余额已经不足", true},
		{"并发", "API并发数", true},
		{"5 小时", "已达到5小时", true},
		{"5 小时", "已达到 5 小时", true},
		{"tpm", "TPM", true},
	} {
		w := newWordText(words(nil, []byte(tc.text)))
		p := newPhrase(tc.phrase)
		if got := p.in(&w); got != tc.want {
			t.Errorf("%q in %q: %v, want %v", tc.phrase, w.text, got, tc.want)
		}
	}
}

// TestPhraseIndex finds every shipped phrase in its own words: the index rules
// out none that stands there.
func TestPhraseIndex(t *testing.T) {
	c := newClassifier(t)
	var all []phrase
	for _, tab := range c.tables {
		for _, r := range tab.rules {
			all = append(append(append(all, r.words...), r.and...), r.unless...)
		}
	}
	for i := range all {
		var text []byte
		for _, part := range all[i].parts {
			text = append(append(gap(text), part...), ' ')
		}
		if w := newWordText(text); !all[i].in(&w) {
			t.Errorf("phrase %q is not found in itself", text)
		}
	}
}
