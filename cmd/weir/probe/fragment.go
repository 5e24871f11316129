package probe

import (
	"fmt"
	"strconv"
	"strings"
)

// Fragment returns the part of a weir.yaml that states the proposed limits for
// a channel of that name, whose key is in the environment variable keyEnv. It
// says, too, what was not found. It names the variable, never the key.
func (o *Outcome) Fragment(channel, provider, keyEnv string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What weir probe found with %d calls; three quarters of what was let through.\nchannels:\n", o.Spent.Requests)
	fmt.Fprintf(&b, "  - name: %s\n    provider: %s\n    base_url: %s\n    model: %s\n", quote(channel), quote(provider), quote(o.URL), quote(o.Model))
	if keyEnv != "" {
		fmt.Fprintf(&b, "    api_key_env: %s\n", quote(keyEnv))
	}
	keys := map[string]string{"concurrency": "concurrency", "requests": "rpm", "tokens": "tpm"}
	var limits []string
	for _, f := range o.Findings {
		fmt.Fprintf(&b, "    # %s: %s\n", f.Dimension, oneLine(f.text()))
		if f.Proposed != nil {
			limits = append(limits, fmt.Sprintf("%s: %d", keys[f.Dimension], *f.Proposed))
		}
	}
	if len(limits) > 0 {
		fmt.Fprintf(&b, "    limits: {%s}\n", strings.Join(limits, ", "))
	}
	return b.String()
}

// quote writes a text as YAML takes it, whatever is in it.
func quote(s string) string { return strconv.QuoteToASCII(s) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// ChannelName makes a channel's name of a model's.
func ChannelName(model string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, model)
	return name[:min(len(name), 60)]
}
