package report

import (
	"math"
	"strconv"
)

// Row is one figure of all phases.
type Row struct {
	Label string
	// Note says what exactly is counted.
	Note string
	// Values has one text a phase.
	Values []string
	// Main marks the rows the verdict rests on.
	Main bool
}

// Rows sets the phases' figures side by side.
func Rows(phases []Phase) []Row {
	row := func(main bool, label, note string, show func(*Figures) string) Row {
		r := Row{Label: label, Note: note, Main: main}
		for i := range phases {
			value := none // nothing was counted yet
			if f := &phases[i].Figures; f.Seconds > 0 {
				value = show(f)
			}
			r.Values = append(r.Values, value)
		}
		return r
	}
	return []Row{
		row(true, "completed a second", "requests answered within their deadline", func(f *Figures) string { return decimal(f.Goodput, 1) }),
		row(true, "share of what could have been served", "against an omniscient scheduler on the same provider and demand", func(f *Figures) string { return percent(float64(f.GoodputRatio)) }),
		row(true, "wasted attempts", "refused, failed or abandoned, of all that reached the provider", func(f *Figures) string { return percent(float64(f.WasteRatio)) }),
		row(true, "answers with code 2064", "by the provider's books", func(f *Figures) string { return Count(f.Code2064) }),
		row(false, "requests wanted", "by the application", func(f *Figures) string { return Count(f.Offered) }),
		row(false, "requests completed", "", func(f *Figures) string { return Count(f.Completed) }),
		row(false, "could have been served", "by the provider's books", func(f *Figures) string { return Count(f.CouldHaveServed) }),
		row(false, "attempts at the provider", "", func(f *Figures) string { return Count(f.Attempts) }),
		row(false, "wasted for each completed request", "", func(f *Figures) string { return decimal(float64(f.Wasted)/float64(f.Completed), 2) }),
		row(false, "request time, median", "from wanted to answered, waiting in the application included", func(f *Figures) string { return span(f.P50) }),
		row(false, "request time, 99th percentile", "", func(f *Figures) string { return span(f.P99) }),
		row(false, "call time, median", "one answered call as the application sees it", func(f *Figures) string { return span(f.CallP50) }),
		row(false, "call time, 99th percentile", "", func(f *Figures) string { return span(f.CallP99) }),
		row(false, "time to recover", "to 90 % of what could be served, after the script's last change", func(f *Figures) string { return never(f.Recover) }),
		row(false, "tokens burnt for nothing", "provider work that reached nobody", func(f *Figures) string { return Count(f.WastedTokens) }),
	}
}

const none = "–"

// decimal shows a number with that many decimals, or a dash for none.
func decimal(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func percent(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	return decimal(100*v, 1) + " %"
}

func span(n Number) string {
	if math.IsNaN(float64(n)) {
		return none
	}
	return decimal(float64(n), 2) + " s"
}

func never(n Number) string {
	switch v := float64(n); {
	case math.IsNaN(v):
		return "not within the run"
	case math.IsInf(v, 0):
		return none
	default:
		return decimal(v, 1) + " s"
	}
}

// Count shows an integer with its thousands apart.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(digits) - 3; i > start; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}
