package dialect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"weir/model"
)

// Fault is a refusal or failure as a client is told it.
type Fault struct {
	// Class decides status and type.
	Class model.Class
	// Status overrides the status of the class where it is not 0.
	Status int
	// Code is a machine's word for the reason, Message a person's.
	Code, Message string
	// Channel is where it happened, empty for none.
	Channel string
	// Wait is how long to wait before another try; negative for unknown.
	Wait time.Duration
	// Most is how long the wait may become; negative or 0 for unknown.
	Most time.Duration
	// Position is the place in the queue, from 1; 0 for none.
	Position int
	// Again is set where the client's SDK may repeat the request: nothing was
	// tried here.
	Again bool
	// Request is the id of the request.
	Request string
}

// HTTPStatus returns the status a client gets: 429 where waiting for the
// account helps, 400 for the caller's mistake, 503 otherwise.
func (f *Fault) HTTPStatus() int {
	if f.Status != 0 {
		return f.Status
	}
	switch f.Class {
	case model.ClassRateLimited, model.ClassQuotaExhausted:
		return http.StatusTooManyRequests
	case model.ClassInvalid:
		return http.StatusBadRequest
	case model.ClassOK, model.ClassOverloaded, model.ClassAuth, model.ClassTransport, model.ClassCanceled:
	}
	return http.StatusServiceUnavailable
}

// errorBody is the error member, the same in all dialects.
type errorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Weir    weir    `json:"weir"`
}

type weir struct {
	Class    string   `json:"class"`
	Channel  string   `json:"channel"`
	WaitS    *float64 `json:"wait_s"`
	MostS    *float64 `json:"wait_max_s,omitempty"`
	Position int      `json:"position"`
}

func (f *Fault) body(d Dialect) errorBody {
	e := errorBody{
		Message: f.Message, Type: f.typeName(d), Code: f.Code,
		Weir: weir{Class: f.Class.String(), Channel: f.Channel, Position: f.Position},
	}
	if f.Wait >= 0 {
		e.Weir.WaitS = seconds(f.Wait)
	}
	if f.Most > 0 {
		e.Weir.MostS = seconds(max(f.Most, f.Wait))
	}
	return e
}

func seconds(d time.Duration) *float64 {
	s := float64(d.Milliseconds()) / 1000
	return &s
}

// typeName is the word the client's SDK knows the class by. The credential
// that was refused is ours, so auth is a fault of the server to the client.
func (f *Fault) typeName(d Dialect) string {
	anthropic := d.Anthropic()
	switch f.Class {
	case model.ClassRateLimited:
		return "rate_limit_error"
	case model.ClassQuotaExhausted:
		if anthropic {
			return "rate_limit_error"
		}
		return "insufficient_quota"
	case model.ClassInvalid:
		switch {
		case f.Status == http.StatusUnauthorized:
			return "authentication_error"
		case f.Status == http.StatusNotFound && anthropic:
			return "not_found_error"
		}
		return "invalid_request_error"
	case model.ClassOverloaded:
		if anthropic {
			return "overloaded_error"
		}
		return "server_error"
	case model.ClassOK, model.ClassAuth, model.ClassTransport, model.ClassCanceled:
	}
	if anthropic {
		return "api_error"
	}
	return "server_error"
}

// JSON returns the fault as the body of an answer.
func (f *Fault) JSON(d Dialect) []byte {
	if d.Anthropic() {
		return marshal(struct {
			Type    string    `json:"type"`
			Error   errorBody `json:"error"`
			Request string    `json:"request_id"`
		}{"error", f.body(d), f.Request})
	}
	return marshal(struct {
		Error errorBody `json:"error"`
	}{f.body(d)})
}

// Frame returns the fault as the last frame of a stream that already began.
func (f *Fault) Frame(d Dialect) []byte {
	switch d {
	case Messages, Count, Batches:
		return fmt.Appendf(nil, "event: error\ndata: %s\n\n", f.JSON(d))
	case Responses:
		e := f.body(d)
		return fmt.Appendf(nil, "event: error\ndata: %s\n\n", marshal(struct {
			Event string `json:"type"`
			errorShort
		}{"error", errorShort{e.Message, e.Code, nil, e}}))
	case Other, Chat, Completions, Embeddings, Media:
	}
	return fmt.Appendf(nil, "data: %s\n\n", f.JSON(d))
}

// errorShort is an error as an event of its own. The member error is what the
// SDKs raise; without it they hand the event on as any other.
type errorShort struct {
	Message string    `json:"message"`
	Code    string    `json:"code"`
	Param   *string   `json:"param"`
	Error   errorBody `json:"error"`
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("dialect: BUG: encode answer: %v", err)) // only strings and numbers
	}
	return b
}
