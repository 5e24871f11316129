package calibrate

import (
	"fmt"

	"weir/sim/world"
)

// aside is how far a run may leave the range that a log has seen, in percent.
const aside = 10

// Beyond says where a run went beyond what the log has seen: more in flight or
// more calls a minute than ever, where no refusal tells what would have come of
// that. The providers are known to be right only within that range.
func (w *World) Beyond(r *world.Result) []string {
	var told []string
	seen, unlimited := 0.0, true
	for i := range w.Report.Providers {
		p := &w.Report.Providers[i]
		seen += p.Requests.Low
		unlimited = unlimited && p.Requests.Refused == 0
		most := 0.0
		for _, s := range p.Concurrency {
			most = max(most, s.Low)
		}
		if n := r.Books[i].MaxInFlight; p.cap() == 0 && outside(float64(n), most) {
			told = append(told, fmt.Sprintf("%s: %d calls in flight, and the log has seen %.0f and no refusal for them: what more would do is not known", p.Channel, n, most))
		}
	}
	if n := busiestMinute(r); unlimited && outside(float64(n), seen) {
		told = append(told, fmt.Sprintf("%d calls in a minute, and the log has seen %.0f and no refusal for them: what more would do is not known", n, seen))
	}
	return told
}

func outside(is, seen float64) bool { return is > seen*(100+aside)/100+1 }

// busiestMinute is the most calls that a run sent within a minute.
func busiestMinute(r *world.Result) int64 {
	var sum, most int64
	for i := range r.Seconds {
		if sum += r.Seconds[i].Sent; i >= 60 {
			sum -= r.Seconds[i-60].Sent
		}
		most = max(most, sum)
	}
	return most
}
