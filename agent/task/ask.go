package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/agent/dialect"
	"weir/model"
)

// asked is what a POST asks for.
type asked struct {
	id     string // the client's, empty for none
	single bool
	named  bool
	items  []*item
	names  []string
	header map[string]string
}

// askedItem is an item as a client writes it: this project's words, or those
// of a line of OpenAI's batch files.
type askedItem struct {
	ID      string          `json:"id"`
	Path    string          `json:"path"`
	Request json.RawMessage `json:"request"`

	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// askedJob is the body of a POST.
type askedJob struct {
	askedItem
	Items askedItems `json:"items"`
}

// askedItems is a list of items. One that is too long is not read to its end:
// as values its items take forty times the room they take as text.
type askedItems []askedItem

// errTooMany says that a list has more than MaxItems items, errNoList that it
// is none.
var (
	errTooMany = errors.New("task: too many items")
	errNoList  = errors.New("task: items is not a list")
)

// UnmarshalJSON implements json.Unmarshaler.
func (l *askedItems) UnmarshalJSON(data []byte) error {
	*l = nil
	dec := json.NewDecoder(bytes.NewReader(data))
	switch open, err := dec.Token(); {
	case err != nil:
		return err
	case open == nil: // null is no list
		return nil
	case open != json.Delim('['):
		return errNoList
	}
	for *l = (askedItems{}); dec.More(); {
		if len(*l) == MaxItems {
			return errTooMany
		}
		var it askedItem
		if err := dec.Decode(&it); err != nil {
			return err
		}
		*l = append(*l, it)
	}
	return nil
}

// keptHeaders are the headers of a POST that go with every call. None of them
// is a secret.
var keptHeaders = [...]string{
	"X-Weir-Tenant", "X-Weir-Priority", "X-Weir-Core", "X-Weir-Capability", "X-Weir-Route",
	"Anthropic-Version", "Anthropic-Beta", "Openai-Beta",
}

// maxHeader bounds the value of such a header, in bytes.
const maxHeader = 256

// parse reads a POST. The fault is the client's.
func (d *Desk) parse(h http.Header, body []byte) (*asked, *dialect.Fault) {
	a := &asked{header: map[string]string{}}
	for _, name := range keptHeaders {
		if v := h.Get(name); len(v) > maxHeader {
			return nil, mistake(http.StatusBadRequest, "invalid_header", fmt.Sprintf("%s has at most %d bytes", name, maxHeader))
		} else if v != "" {
			a.header[name] = v
		}
	}
	if _, ok := model.ParsePriority(h.Get("X-Weir-Priority")); !ok && h.Get("X-Weir-Priority") != "" {
		return nil, mistake(http.StatusBadRequest, "invalid_priority", "X-Weir-Priority is batch, normal or interactive")
	}
	var list []askedItem
	var path string
	if kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")); strings.HasSuffix(kind, "jsonl") || strings.HasSuffix(kind, "ndjson") || strings.HasSuffix(kind, "jsonlines") {
		var fault *dialect.Fault
		if list, fault = lines(body); fault != nil {
			return nil, fault
		}
	} else {
		var j askedJob
		switch err := json.Unmarshal(body, &j); {
		case errors.Is(err, errTooMany):
			return nil, tooMany()
		case err != nil:
			return nil, mistake(http.StatusBadRequest, "invalid_body", "the body is not the JSON object of a task: "+where(err))
		}
		path, list, a.id = j.Path, j.Items, j.ID
		if a.single = j.Items == nil; a.single {
			j.ID, list = "", []askedItem{j.askedItem}
		}
	}
	if len(list) == 0 {
		return nil, mistake(http.StatusBadRequest, "no_items", "a task has at least one item")
	}
	return a, d.take(a, list, path)
}

func tooMany() *dialect.Fault {
	return mistake(http.StatusRequestEntityTooLarge, "too_many_items", fmt.Sprintf("a task has at most %d items", MaxItems))
}

// where says what is wrong with JSON without showing any of it.
func where(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("bad syntax at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Sprintf("member %q cannot be a %s", kind.Field, kind.Value)
	}
	return "it cannot be read"
}

// lines reads one item a line.
func lines(body []byte) ([]askedItem, *dialect.Fault) {
	var list []askedItem
	n := 0
	for line := range bytes.Lines(body) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(list) == MaxItems {
			return nil, tooMany()
		}
		var it askedItem
		if err := json.Unmarshal(line, &it); err != nil {
			return nil, mistake(http.StatusBadRequest, "invalid_body", fmt.Sprintf("line %d is not the JSON object of an item: %s", n, where(err)))
		}
		list = append(list, it)
	}
	return list, nil
}

// take checks the items and adds them.
func (d *Desk) take(a *asked, list []askedItem, path string) *dialect.Fault {
	seen := map[string]bool{}
	for n := range list {
		in := &list[n]
		name := first(in.CustomID, in.ID)
		if a.single {
			name = in.CustomID
		}
		a.named = a.named || name != ""
		name = first(name, strconv.Itoa(n))
		if len(name) > maxID {
			return at(n, mistake(http.StatusBadRequest, "invalid_id", fmt.Sprintf("an item's id has at most %d bytes", maxID)))
		}
		if seen[name] {
			return at(n, mistake(http.StatusBadRequest, "duplicate_id", "another item has the same id"))
		}
		seen[name] = true
		it := &item{V: recordVersion, N: n, Path: first(in.Path, in.URL, path), body: in.Request}
		if len(it.body) == 0 {
			it.body = in.Body
		}
		if in.Method != "" && in.Method != http.MethodPost {
			return at(n, mistake(http.StatusBadRequest, "invalid_method", "only POST goes to a model"))
		}
		if fault := d.check(a, it); fault != nil {
			return at(n, fault)
		}
		a.items, a.names = append(a.items, it), append(a.names, name)
	}
	return nil
}

// check looks whether an item can be a call at all.
func (d *Desk) check(a *asked, it *item) *dialect.Fault {
	kind, _ := dialect.Of(it.Path)
	switch {
	case it.Path == "":
		return mistake(http.StatusBadRequest, "no_path", `it has no path, such as "/v1/chat/completions"`)
	case !callable(it.Path):
		return mistake(http.StatusBadRequest, "unknown_path", "its path is not one of a call to a model")
	case len(it.body) == 0:
		return mistake(http.StatusBadRequest, "no_request", "it has no request")
	case len(it.body) > MaxRequest:
		return mistake(http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("its request has %d bytes, at most %d are kept", len(it.body), MaxRequest))
	}
	body, err := dialect.Read(kind, "application/json", it.body)
	switch {
	case err != nil:
		return mistake(http.StatusBadRequest, "invalid_request", err.Error())
	case body.Stream:
		return mistake(http.StatusBadRequest, "no_stream", "nobody is there to read a stream; leave stream out")
	}
	it.Route = first(body.Model, a.header["X-Weir-Route"])
	known := func(r model.RouteConfig) bool { return r.Name == it.Route }
	if it.Route != "" && !slices.ContainsFunc(d.o.Client.Fleet().Routes, known) {
		return mistake(http.StatusNotFound, "model_not_found", "no route has the name of its model; GET /v1/models lists them")
	}
	return nil
}

// at says which item a fault is about.
func at(n int, f *dialect.Fault) *dialect.Fault {
	f.Message = fmt.Sprintf("item %d: %s", n, f.Message)
	return f
}

// print is what is asked, to the byte.
func (a *asked) print() string {
	sum := sha256.New()
	for _, name := range keptHeaders {
		fmt.Fprintf(sum, "%q\n", a.header[name])
	}
	for n, it := range a.items {
		fmt.Fprintf(sum, "%q %q %d\n", a.names[n], it.Path, len(it.body))
		sum.Write(it.body) // a hash never fails
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func mistake(code int, name, message string) *dialect.Fault {
	return &dialect.Fault{Class: model.ClassInvalid, Status: code, Code: name, Message: message, Wait: -1}
}
