package story

import "weir/model"

// minute counts the calls of the last 60 s, by the second of their report.
type minute struct {
	seconds [60]struct {
		at     int64
		calls  uint64
		tokens int64
	}
}

func (m *minute) add(at model.Nanos, t *tally) {
	sec := int64(at / model.Second)
	s := &m.seconds[(sec%60+60)%60]
	if s.at != sec {
		s.at, s.calls, s.tokens = sec, 0, 0
	}
	for _, n := range t.counts {
		s.calls += n
	}
	s.tokens += t.tokens
}

// last returns the calls and tokens of the minute before an instant.
func (m *minute) last(now model.Nanos) (calls uint64, tokens int64) {
	if m == nil {
		return 0, 0
	}
	sec := int64(now / model.Second)
	for i := range m.seconds {
		if s := &m.seconds[i]; s.at > sec-60 && s.at <= sec {
			calls += s.calls
			tokens += s.tokens
		}
	}
	return calls, tokens
}
