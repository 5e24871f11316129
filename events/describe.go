package events

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"weir/model"
)

// maxListed is how many channels, codes or counts a description lists.
const maxListed = 8

// Describe renders a record as one line for people: place, time, kind and
// what matters of the fact. What came from outside is quoted where it holds
// anything but plain characters, so a line is safe to print. It is no format:
// programs read facts.
func Describe(r model.Record) string {
	var b strings.Builder
	at := time.Unix(0, int64(r.Time)).UTC().Format("2006-01-02T15:04:05.000Z")
	fmt.Fprintf(&b, "%d %s ", r.Seq, at)
	switch f := r.Fact.(type) {
	case nil:
		b.WriteString("unreadable")
	case *model.Attempts:
		describeAttempts(&b, f)
	case *model.Summary:
		describeSummary(&b, f)
	case *model.Config:
		fmt.Fprintf(&b, "config %d channels, %d groups, %d routes, %d tenants, %s",
			len(f.Channels), len(f.Groups), len(f.Routes), len(f.Tenants), f.Mode)
		if f.By != "" || f.Why != "" {
			fmt.Fprintf(&b, ", by %s: %s", word(f.By), text(f.Why))
		}
	case *model.ParamSet:
		fmt.Fprintf(&b, "params %s %s by %s: %s", word(f.Name), f.Params.Hash(), word(f.By), text(f.Why))
		describeGuard(&b, f)
	case *model.Command:
		describeCommand(&b, f)
	case *model.Lead:
		fmt.Fprintf(&b, "lead term %d, %s, version %s, laws %d", f.Term, word(f.Controller), word(f.Version), f.Laws)
	case *model.Tick:
		fmt.Fprintf(&b, "tick term %d, %s", f.Term, f.Elapsed)
	case *model.Rebase:
		fmt.Fprintf(&b, "rebase term %d, %d bytes of state %x: %s", f.Term, len(f.Snapshot), f.Digest[:8], text(f.Reason))
	default:
		fmt.Fprintf(&b, "kind %d of a newer version", f.Kind())
	}
	return b.String()
}

func describeAttempts(b *strings.Builder, a *model.Attempts) {
	fmt.Fprintf(b, "attempts %s boot %d report %d", word(a.Agent), a.Boot, a.Seq)
	if a.Version != "" {
		fmt.Fprintf(b, ", version %s", word(a.Version))
	}
	if a.Mode != model.ModeEnforce {
		fmt.Fprintf(b, ", %s", a.Mode)
	}
	if a.Leaving {
		b.WriteString(", leaving")
	}
	var counts [model.NumClasses]int
	var in, out model.Tokens
	for i := range a.Attempts {
		t := &a.Attempts[i]
		if int(t.Class) < len(counts) {
			counts[t.Class]++
		}
		in, out = in+t.In, out+t.Out
	}
	for _, c := range model.Classes {
		if counts[c] > 0 {
			fmt.Fprintf(b, ", %d %s%s", counts[c], c, codes(a.Attempts, c))
		}
	}
	if in > 0 || out > 0 {
		fmt.Fprintf(b, ", tokens %d in %d out", in, out)
	}
	for i, c := range a.Channels {
		if i == maxListed {
			fmt.Fprintf(b, "; %d more channels", len(a.Channels)-i)
			break
		}
		fmt.Fprintf(b, "; %s %d in flight", word(c.Channel), c.InFlight)
		if c.Held > 0 {
			fmt.Fprintf(b, " %d held", c.Held)
		}
		if c.Queued > 0 {
			fmt.Fprintf(b, " %d queued", c.Queued)
		}
	}
}

// codes lists the distinct codes of a class's attempts in the order they came.
func codes(attempts []model.Attempt, class model.Class) string {
	var seen []string
	for i := range attempts {
		t := &attempts[i]
		if t.Class != class || t.Code == "" {
			continue
		}
		code := word(t.Code)
		if !slices.Contains(seen, code) && len(seen) < maxListed {
			seen = append(seen, code)
		}
	}
	if len(seen) == 0 {
		return ""
	}
	return " (" + strings.Join(seen, " ") + ")"
}

func describeSummary(b *strings.Builder, s *model.Summary) {
	fmt.Fprintf(b, "summary %s boot %d reports %d..%d", word(s.Agent), s.Boot, s.Seq, s.Seq+max(s.Span, 1)-1)
	for i, c := range s.Counts {
		if i == maxListed {
			fmt.Fprintf(b, "; %d more counts", len(s.Counts)-i)
			break
		}
		fmt.Fprintf(b, "; %s %d %s", word(c.Channel), c.Attempts, c.Class)
	}
}

func describeCommand(b *strings.Builder, c *model.Command) {
	fmt.Fprintf(b, "command %s", c.Command)
	if c.Channel != "" {
		fmt.Fprintf(b, " %s", word(c.Channel))
	}
	if c.Agent != "" {
		fmt.Fprintf(b, " %s", word(c.Agent))
	}
	fmt.Fprintf(b, " %d", c.Value)
	if c.For > 0 {
		fmt.Fprintf(b, " for %s", c.For)
	}
	fmt.Fprintf(b, " by %s: %s", word(c.By), text(c.Why))
}

// word renders a name: as it is when it is plain, quoted otherwise.
func word(s string) string {
	if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == '"' }) {
		return text(s)
	}
	return clean(s)
}

// text renders a sentence: always quoted.
func text(s string) string { return strconv.QuoteToGraphic(clip(s)) }

// clean quotes what holds characters that do not print.
func clean(s string) string {
	s = clip(s)
	if strings.ContainsFunc(s, func(c rune) bool { return c == utf8.RuneError || !strconv.IsGraphic(c) }) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}

// clip cuts what is longer than a line should be.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// describeGuard says how a push of parameters is watched.
func describeGuard(b *strings.Builder, p *model.ParamSet) {
	if p.Canary != "" {
		fmt.Fprintf(b, ", on %s alone", word(p.Canary))
	}
	if g := p.Guard; g != (model.Guard{}) {
		fmt.Fprintf(b, ", watched for %s: goodput may change by %d ppm, waste by %d", g.For, g.Goodput, g.Waste)
	}
}
