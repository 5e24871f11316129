package emulator

import (
	"net/http"
	"time"

	"weir/sim/provider"
)

// Report is the answer of GET /emulator/books.
type Report struct {
	Incident string  `json:"incident"`
	Provider string  `json:"provider"`
	AtS      float64 `json:"at_s"` // instant of the script, seconds

	// Concurrency, BestInFlight and Slowdown (ppm) are the truth of the moment;
	// the first two are negative where there is no cap.
	Concurrency  int64 `json:"concurrency"`
	BestInFlight int64 `json:"best_in_flight"`
	Slowdown     int64 `json:"slowdown_ppm"`

	Books provider.Books `json:"books"`
}

// Report returns books and truth as of now.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.advance()
	law := s.truth.Law()
	r := Report{
		Incident: s.incident, Provider: s.provider.Name, AtS: time.Duration(now).Seconds(),
		Concurrency: law.Concurrency, BestInFlight: s.truth.BestInFlight(), Slowdown: s.truth.Slowdown(),
		Books: s.truth.Books(),
	}
	if r.BestInFlight == provider.Never {
		r.BestInFlight = -1
	}
	return r
}

func (s *Server) showBooks(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Report())
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	data := []object{}
	for _, m := range s.models {
		data = append(data, object{"id": m, "object": "model", "created": 0, "owned_by": s.provider.Name})
	}
	writeJSON(w, http.StatusOK, object{"object": "list", "data": data})
}
