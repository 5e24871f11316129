package peer

// Window is the increase and decrease that everybody writes first, one per
// process: one slot more for every success, and a share of the window for
// every refusal or timeout, without regard to how many belong to one event.
type Window struct {
	slots
	floor, ceiling int64
	keepPercent    int64
}

// NewPlain returns a window that starts at 10, keeps 70 % at every refusal and
// moves between 1 and 1000.
func NewPlain() *Window {
	return &Window{slots: slots{limit: 10}, floor: 1, ceiling: 1000, keepPercent: 70}
}

// NewRemedy returns what the operators of the 2064 incident put in place: it
// starts at 5, is halved at every refusal and moves between 5 and 30.
func NewRemedy() *Window {
	return &Window{slots: slots{limit: 5}, floor: 5, ceiling: 30, keepPercent: 50}
}

// Ask waits for a free slot.
func (l *Window) Ask(int64, Call) (Verdict, int64) { return l.ask() }

// Start takes a slot.
func (l *Window) Start(int64, Call) Mark {
	l.inFlight++
	return 0
}

// Done frees the slot and moves the window.
func (l *Window) Done(_ int64, s *Sample) {
	l.inFlight--
	switch {
	case s.OK():
		l.limit = min(l.limit+1, l.ceiling)
	case s.Dropped():
		l.limit = max(l.limit*l.keepPercent/100, l.floor)
	}
}
