package emulator

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/sim/draw"
	"weir/sim/incident"
	"weir/sim/provider"
)

// chunkEvery is how often a stream sends what has been produced.
const chunkEvery = 50 * time.Millisecond

type completion struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Created int64     `json:"created"`
	Model   string    `json:"model"`
	Choices []choice  `json:"choices"`
	Usage   *usage    `json:"usage,omitempty"`
	Base    *baseResp `json:"base_resp,omitempty"`
}

type choice struct {
	Index   int      `json:"index"`
	Message *content `json:"message,omitempty"`
	Delta   *content `json:"delta,omitempty"`
	Finish  *string  `json:"finish_reason"`
}

type content struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

func usageOf(c *provider.Call) *usage { return &usage{c.Input, c.Output, c.Input + c.Output} }

// chat answers POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	if err := decode(w, r, &req); err != nil {
		badBody(w, err)
		return
	}
	if len(req.Messages) == 0 {
		clientFault(w, http.StatusBadRequest, "messages: at least one is required")
		return
	}
	spec := req.spec(r.Header, s.seed)
	c := s.begin(w, r, spec)
	if c == nil {
		return
	}
	s.reply(w, r, c, &req, s.newReply(&req, &spec))
}

// shaped is an answer in the shape of an API.
type shaped interface {
	// whole is the answer in one piece; open, part and end are the events of
	// its stream, part for the tokens from..to.
	whole() any
	open() []any
	part(from, to int64) any
	end() []any
	// mark is what stands after the last event, size the tokens of it all.
	mark() string
	size() int64
}

// named is an event that is sent with its name.
type named interface{ event() string }

// reply sends an answer as the client asked for it.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, c *call, req *chatRequest, a shaped) {
	if req.Stream {
		s.stream(w, r, c, a)
		return
	}
	if s.wait(w, r, c, provider.Done) {
		writeJSON(w, http.StatusOK, a.whole())
	}
}

func badBody(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		clientFault(w, http.StatusRequestEntityTooLarge, "the body is larger than "+strconv.Itoa(maxBody)+" bytes")
	case errors.Is(err, errBody):
		clientFault(w, http.StatusBadRequest, err.Error())
	default: // the client left while sending
		clientFault(w, http.StatusBadRequest, "the body ended early")
	}
}

// begin offers a call. It returns nil when the call was refused and answered.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, spec provider.Call) *call {
	c, answer := s.offer(spec)
	if c != nil {
		s.rateHeaders(w.Header(), answer.Headers)
		return c
	}
	delay := time.NewTimer(answer.Refusal.Delay)
	defer delay.Stop()
	select {
	case <-delay.C:
		s.refuse(w, &answer.Refusal)
	case <-r.Context().Done():
	case <-s.closed:
		unavailable(w)
	}
	return nil
}

// wait waits for an event of at least that kind and reports whether it came.
// Otherwise the call is over and has been answered.
func (s *Server) wait(w http.ResponseWriter, r *http.Request, c *call, kind provider.EventKind) bool {
	for {
		select {
		case e, ok := <-c.events:
			switch {
			case !ok:
				unavailable(w)
				return false
			case e.Kind == provider.Failed:
				failed(w, e.Status)
				return false
			case e.Kind >= kind:
				return true
			}
		case <-r.Context().Done():
			s.giveUp(c)
			return false
		}
	}
}

// stream sends the answer as server-sent events while the model produces it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c *call, a shaped) {
	if !s.wait(w, r, c, provider.First) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	send := func(all ...any) bool {
		for _, v := range all {
			if sendEvent(w, v) != nil || out.Flush() != nil {
				return false
			}
		}
		return true
	}
	if !send(a.open()...) {
		s.giveUp(c)
		return
	}
	tick := time.NewTicker(chunkEvery)
	defer tick.Stop()
	sent := int64(0)
	for {
		select {
		case <-tick.C:
			if n := s.streamed(c); n > sent {
				if !send(a.part(sent, n)) {
					s.giveUp(c)
					return
				}
				sent = n
			}
		case _, ok := <-c.events:
			if !ok {
				return // cut off in the middle, as real ones do
			}
			if a.size() > sent && !send(a.part(sent, a.size())) {
				return
			}
			if send(a.end()...) {
				_, _ = w.Write([]byte(a.mark())) // a client that is gone needs no end
			}
			return
		case <-r.Context().Done():
			s.giveUp(c)
			return
		}
	}
}

func sendEvent(w http.ResponseWriter, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	head := "data: "
	if n, ok := v.(named); ok {
		head = "event: " + n.event() + "\ndata: "
	}
	_, err = w.Write(append(append([]byte(head), data...), "\n\n"...))
	return err
}

// reply builds the parts of one answer.
type reply struct {
	spec         *provider.Call
	head         completion
	includeUsage bool
}

func (s *Server) newReply(req *chatRequest, spec *provider.Call) *reply {
	id := draw.Seed(s.seed).Bits(draw.Identity, spec.Request, uint64(spec.Try))
	a := &reply{spec: spec, includeUsage: req.StreamOptions.IncludeUsage}
	a.head = completion{ID: "chatcmpl-" + strconv.FormatUint(id, 36), Created: time.Now().Unix(), Model: req.Model}
	if s.provider.Law.Refusal.Shape == incident.ShapeMiniMax {
		a.head.Base = &baseResp{0, "success"}
	}
	return a
}

func (a *reply) whole() any {
	c := a.head
	c.Object = "chat.completion"
	text := filler(0, a.spec.Output)
	c.Choices = []choice{{Message: &content{"assistant", &text}, Finish: a.reason()}}
	c.Usage = usageOf(a.spec)
	return c
}

func (a *reply) open() []any { return []any{a.role()} }

func (a *reply) end() []any {
	if a.includeUsage {
		return []any{a.finish(), a.usage()}
	}
	return []any{a.finish()}
}

func (a *reply) mark() string { return "data: [DONE]\n\n" }

func (a *reply) size() int64 { return a.spec.Output }

// reason is "length" when max_tokens cut the answer.
func (a *reply) reason() *string {
	reason := "stop"
	if a.spec.MaxTokens > 0 && a.spec.Output >= a.spec.MaxTokens {
		reason = "length"
	}
	return &reason
}

func (a *reply) chunk(c choice) completion {
	out := a.head
	out.Object = "chat.completion.chunk"
	out.Base = nil
	out.Choices = []choice{c}
	return out
}

func (a *reply) role() completion {
	empty := ""
	return a.chunk(choice{Delta: &content{"assistant", &empty}})
}

func (a *reply) part(from, to int64) any {
	text := filler(from, to)
	return a.chunk(choice{Delta: &content{Content: &text}})
}

func (a *reply) finish() completion {
	return a.chunk(choice{Delta: &content{}, Finish: a.reason()})
}

func (a *reply) usage() completion {
	c := a.chunk(choice{})
	c.Choices = []choice{}
	c.Usage = usageOf(a.spec)
	return c
}

// filler is the text of tokens from..to of every answer: one word a token.
func filler(from, to int64) string {
	words := [...]string{"the ", "weir ", "holds ", "the ", "water ", "at ", "one ", "level. "}
	var b strings.Builder
	b.Grow(int(to-from) * 6)
	for i := from; i < to; i++ {
		b.WriteString(words[i%int64(len(words))])
	}
	return b.String()
}
