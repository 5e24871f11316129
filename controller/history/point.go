package history

import (
	"encoding/binary"

	"weir/model"
)

// Point is one channel at a moment. Gauges are of that moment, totals since
// the fleet's log began.
type Point struct {
	// Unix is the moment in seconds since 1970.
	Unix int64
	// Window is in thousandths of a slot.
	Window                           int64
	Leased, InFlight, Held, Queued   int64 // slots and requests
	Weight                           int64 // ppm
	Latency                          int64 // ppm of the baseline, 0 for unknown
	Breaker                          model.BreakerState
	Epoch                            int64
	OK, Refused, Failed, Mistaken    int64 // attempts: served, refused by the provider, failed, the caller's own
	TokensIn, TokensOut, WouldRefuse int64
}

// pointVersion begins a stored point. A later one may have more numbers.
const pointVersion = 1

// fields are the numbers of a stored point, in order. New ones go to the end.
func (p *Point) fields() []*int64 {
	return []*int64{
		&p.Window, &p.Leased, &p.InFlight, &p.Held, &p.Queued, &p.Weight, &p.Latency, &p.Epoch,
		&p.OK, &p.Refused, &p.Failed, &p.Mistaken, &p.TokensIn, &p.TokensOut, &p.WouldRefuse,
	}
}

func pointOf(c *model.FleetChannel) Point {
	p := Point{
		Window: int64(c.Window), Leased: c.Leased, InFlight: c.InFlight, Held: c.Held, Queued: c.Queued,
		Weight: int64(c.Weight), Latency: int64(c.Latency), Breaker: c.State, Epoch: int64(c.Epoch),
		TokensIn: int64(c.TokensIn), TokensOut: int64(c.TokensOut), WouldRefuse: int64(c.WouldRefuse),
	}
	for _, class := range model.Classes {
		n := int64(c.Counts[class])
		switch {
		case class == model.ClassOK:
			p.OK += n
		case class.Refused(), class == model.ClassQuotaExhausted, class == model.ClassAuth:
			p.Refused += n
		case class == model.ClassInvalid, class == model.ClassCanceled:
			p.Mistaken += n
		default:
			p.Failed += n
		}
	}
	return p
}

// append encodes a point.
func (p *Point) append(b []byte) []byte {
	b = append(b, pointVersion, byte(p.Breaker))
	for _, n := range p.fields() {
		b = binary.AppendVarint(b, *n)
	}
	return b
}

// parsePoint is the inverse of append. Numbers that an older version did not
// write are 0, those of a newer one are passed over.
func parsePoint(b []byte) (p Point, ok bool) {
	if len(b) < 2 || b[0] == 0 {
		return p, false
	}
	p.Breaker = model.BreakerState(b[1])
	b = b[2:]
	for _, f := range p.fields() {
		if len(b) == 0 {
			break
		}
		v, n := binary.Varint(b)
		if n <= 0 {
			return p, false
		}
		*f, b = v, b[n:]
	}
	return p, true
}
