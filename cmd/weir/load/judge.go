package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxAnswer bounds an answer, maxLine an event of a streamed one, in bytes.
const (
	maxAnswer = 8 << 20
	maxLine   = 1 << 20
)

// answer is what an application looks at.
type answer struct {
	Choices []struct {
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Error  json.RawMessage `json:"error"`
	Status *struct {
		Code int64 `json:"status_code"`
	} `json:"base_resp"`
	Type string          `json:"type"`
	Code json.RawMessage `json:"code"`
}

// judge reads an answer to its end and returns "" when it is good, or a code.
func judge(resp *http.Response) string {
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return judgeStream(resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return "broken"
	}
	if len(data) > maxAnswer {
		return "too_long"
	}
	var a answer
	known := json.Unmarshal(data, &a) == nil
	if code := a.fault(); code != "" {
		return code
	}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return httpCode(resp.StatusCode)
	case !known:
		return "not_json"
	case len(a.Choices) == 0:
		return "empty"
	}
	return ""
}

func httpCode(status int) string { return "http_" + strconv.Itoa(status) }

// judgeStream reads server-sent events; the answer is complete when the model
// said why it stopped.
func judgeStream(resp *http.Response) string {
	in := bufio.NewScanner(io.LimitReader(resp.Body, maxAnswer))
	in.Buffer(make([]byte, 0, 4<<10), maxLine)
	finished := false
	for in.Scan() {
		data, ok := bytes.CutPrefix(in.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		if data = bytes.TrimSpace(data); bytes.Equal(data, []byte("[DONE]")) {
			continue
		}
		var a answer
		if json.Unmarshal(data, &a) != nil {
			return "not_json"
		}
		if code := a.fault(); code != "" {
			return code
		}
		finished = finished || len(a.Choices) > 0 && a.Choices[0].FinishReason != ""
	}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return httpCode(resp.StatusCode)
	case in.Err() != nil || !finished:
		return "broken"
	}
	return ""
}

// fault returns the code of an error envelope, whatever the status was, or "".
func (a *answer) fault() string {
	if a.Status != nil && a.Status.Code != 0 {
		return strconv.FormatInt(a.Status.Code, 10)
	}
	if len(a.Error) == 0 || bytes.Equal(a.Error, []byte("null")) {
		if a.Type == "error" || len(a.Choices) == 0 && len(a.Code) > 0 {
			return firstCode(scalar(a.Code), "error")
		}
		return ""
	}
	var e struct {
		Code json.RawMessage `json:"code"`
		Type string          `json:"type"`
		Name string          `json:"status"`
	}
	if json.Unmarshal(a.Error, &e) != nil {
		return firstCode(scalar(a.Error), "error")
	}
	code := scalar(e.Code)
	if n, err := strconv.Atoi(code); err == nil && n < 1000 {
		code = "" // an HTTP status says less than a name
	}
	return firstCode(code, e.Name, e.Type, scalar(e.Code), "error")
}

// firstCode returns the first text there is, shortened.
func firstCode(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t[:min(len(t), 40)]
		}
	}
	return ""
}

// scalar is the text of a JSON string or number, else "".
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

// transportCode names why there was no answer.
func transportCode(err error, timedOut bool) string {
	var dial interface{ Timeout() bool }
	switch {
	case timedOut:
		return "timeout"
	case errors.As(err, &dial) && dial.Timeout():
		return "timeout"
	}
	if text := fmt.Sprint(err); strings.Contains(text, "connection refused") {
		return "connection_refused"
	}
	return "connection"
}
