package emulator

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"weir/sim/draw"
	"weir/sim/incident"
	"weir/sim/provider"
)

// Config makes a Server.
type Config struct {
	// Incident is the world; required.
	Incident *incident.Incident
	// Provider names one of its providers; empty means the first.
	Provider string
	// Seed decides every draw.
	Seed uint64
	// Start is the instant at which the script begins; zero means now. An
	// earlier one begins in the middle of the script.
	Start time.Time
}

// Server is a live provider. It is an http.Handler; Close it after the HTTP
// server has shut down.
type Server struct {
	mux      *http.ServeMux
	provider incident.Provider
	incident string
	models   []string
	seed     uint64

	kick   chan struct{} // the next deadline may have come nearer
	closed chan struct{}
	loop   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	start time.Time
	model *provider.Provider
	truth *provider.Truth
	calls map[uint64]*call // waiting handlers by the ID of their call
	last  uint64           // ID of the latest call
	armed int64            // instant the loop sleeps until
	done  bool
	batch []provider.Event
}

// call is a handler that waits for its events.
type call struct {
	id     uint64
	ticket provider.Ticket
	// events holds a first token and an end, so that handing out never waits.
	// It is closed when the server gives the call up.
	events chan provider.Event
}

// New starts a live provider.
func New(c Config) (*Server, error) {
	s := &Server{
		mux: http.NewServeMux(), incident: c.Incident.Name, seed: c.Seed, start: c.Start,
		kick: make(chan struct{}, 1), closed: make(chan struct{}), calls: map[uint64]*call{},
	}
	p := &c.Incident.Providers[0]
	if c.Provider != "" {
		if p = c.Incident.ProviderByName(c.Provider); p == nil {
			return nil, fmt.Errorf("start emulator: incident %s has no provider %q", c.Incident.Name, c.Provider)
		}
	}
	s.provider = *p
	for _, ch := range c.Incident.Channels {
		if ch.Provider == p.Name {
			s.models = append(s.models, ch.Name)
		}
	}
	if s.start.IsZero() {
		s.start = time.Now()
	}
	s.model, s.truth = provider.New(provider.Config{Incident: s.provider, Seed: s.seed, Ideal: true})
	s.routes()
	s.loop.Go(s.run)
	return s, nil
}

func (s *Server) routes() {
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("POST /v1/messages", s.messages)
	s.mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.mux.HandleFunc("GET /v1/models", s.listModels)
	s.mux.HandleFunc("GET /emulator/books", s.showBooks)
	s.mux.HandleFunc("POST /emulator/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		clientFault(w, http.StatusNotFound, "there is no "+r.Method+" "+r.URL.Path+" here")
	})
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Now returns the present instant of the script.
func (s *Server) Now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.now())
}

func (s *Server) now() int64 { return max(0, int64(time.Since(s.start))) }

// Books returns the books as of now.
func (s *Server) Books() provider.Books {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.truth.Books()
}

// Law returns the true law of now.
func (s *Server) Law() incident.Law {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.truth.Law()
}

// Demand tells the books what clients want from now on, whether or not they
// get to send it; see provider.Truth.Demand. deadline is how long from now the
// answer is of use; 0 for ever.
func (s *Server) Demand(d provider.Demand, deadline time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.advance()
	if deadline > 0 {
		d.Deadline = now + int64(deadline)
	}
	s.truth.Demand(now, d)
}

// Reset starts the script again from its first instant with empty books.
// Calls in flight end with status 503.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
	s.start = time.Now()
	s.model, s.truth = provider.New(provider.Config{Incident: s.provider, Seed: s.seed, Ideal: true})
	s.wake()
}

// Close ends the server's goroutine and every waiting call, with status 503.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.done {
		s.done = true
		s.drop()
		close(s.closed)
	}
	s.mu.Unlock()
	s.loop.Wait()
}

// drop gives every waiting call up.
func (s *Server) drop() {
	for id, c := range s.calls {
		close(c.events)
		delete(s.calls, id)
	}
}

// run sleeps until the model's next deadline, hands out, and sleeps again.
func (s *Server) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		now := s.advance()
		s.armed = s.model.NextWake()
		sleep := time.Hour
		if s.armed != provider.Never {
			sleep = min(sleep, time.Duration(s.armed-now))
		}
		s.mu.Unlock()
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.closed:
			return
		}
	}
}

// wake lets the loop look at its deadline again.
func (s *Server) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// advance plays the model up to now and hands out what happened.
func (s *Server) advance() int64 {
	now := s.now()
	s.batch = s.model.Advance(now, s.batch[:0])
	for _, e := range s.batch {
		c := s.calls[e.ID]
		if c == nil {
			continue
		}
		c.events <- e
		if e.Kind != provider.First {
			delete(s.calls, e.ID)
		}
	}
	return now
}

// offer sends a call to the model. On acceptance the call waits for events.
func (s *Server) offer(spec provider.Call) (*call, provider.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.advance()
	s.last++
	spec.ID = s.last
	if spec.Request == 0 {
		spec.Request = draw.Seed(s.seed).Bits(draw.Identity, s.last, 0)
	}
	answer := s.model.Offer(now, spec)
	if !answer.Accepted() {
		return nil, answer
	}
	c := &call{id: spec.ID, ticket: answer.Ticket, events: make(chan provider.Event, 2)}
	if s.done {
		close(c.events)
		return c, answer
	}
	s.calls[spec.ID] = c
	if s.model.NextWake() < s.armed {
		s.wake()
	}
	return c, answer
}

// giveUp tells the model that a call's client has left.
func (s *Server) giveUp(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[c.id] != c {
		return // it is over
	}
	delete(s.calls, c.id)
	s.model.Cancel(s.advance(), c.ticket)
	s.wake()
}

// streamed returns how many tokens of a call are out; 0 once it is over.
func (s *Server) streamed(c *call) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.advance()
	if s.calls[c.id] != c {
		return 0
	}
	return s.model.Streamed(now, c.ticket)
}
