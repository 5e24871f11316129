package calibrate

import (
	"fmt"
	"strconv"
	"strings"

	"weir/model"
)

// outcome reads what became of a call.
func outcome(c *Call, get func(Field) (any, string)) error {
	if v, _ := get(FieldStatus); v != nil {
		if n, err := number(v); err == nil && n >= 0 && n < 1000 {
			c.Status = int(n)
		}
	}
	if v, _ := get(FieldAttempt); v != nil {
		if n, err := number(v); err == nil && n >= 0 && n < 1e6 {
			c.Try = max(int(n), 1)
		}
	}
	name := ""
	if v, _ := get(FieldClass); v != nil {
		name = strings.TrimSpace(said(v))
	}
	c.Class, c.Code = classOf(name, c.Status)
	if c.Class == 0 {
		return fmt.Errorf("error_class %.40q and status %d say nothing", name, c.Status)
	}
	if c.Class == model.ClassOK && c.Status == 0 {
		c.Status = 200
	}
	return nil
}

// classOf is what a word and a status say together, and the word as a code
// where it is one of the provider's.
func classOf(word string, status int) (model.Class, string) {
	if c, ok := model.ParseClass(word); ok {
		return c, ""
	}
	if n, err := strconv.Atoi(word); err == nil && status == 0 && n >= 100 && n < 600 {
		status, word = n, ""
	}
	low := strings.ToLower(word)
	switch low {
	case "", "none", "null", "ok", "success", "false", "unset", "<nil>":
		return byStatus(status, low != "" || status == 0), ""
	}
	for _, w := range words() {
		if strings.Contains(low, w.part) {
			return w.class, word
		}
	}
	return byStatus(status, false), word
}

type word struct {
	part  string
	class model.Class
}

// words are parts of names that error classes have.
func words() []word {
	return []word{
		{"quota", model.ClassQuotaExhausted},
		{"budget", model.ClassQuotaExhausted},
		{"insufficient", model.ClassQuotaExhausted},
		{"ratelimit", model.ClassRateLimited},
		{"rate_limit", model.ClassRateLimited},
		{"too_many", model.ClassRateLimited},
		{"toomany", model.ClassRateLimited},
		{"resource_exhausted", model.ClassRateLimited},
		{"1002", model.ClassRateLimited},
		{"14003", model.ClassRateLimited},
		{"overload", model.ClassOverloaded},
		{"unavailable", model.ClassOverloaded},
		{"2064", model.ClassOverloaded},
		{"internalserver", model.ClassOverloaded},
		{"internal_server", model.ClassOverloaded},
		{"auth", model.ClassAuth},
		{"permission", model.ClassAuth},
		{"api_key", model.ClassAuth},
		{"cancel", model.ClassCanceled},
		{"timeout", model.ClassTransport},
		{"connection", model.ClassTransport},
		{"transport", model.ClassTransport},
		{"badrequest", model.ClassInvalid},
		{"bad_request", model.ClassInvalid},
		{"invalid", model.ClassInvalid},
		{"notfound", model.ClassInvalid},
		{"contextwindow", model.ClassInvalid},
	}
}

// byStatus is what a status alone says. fine is set when a word says success.
func byStatus(status int, fine bool) model.Class {
	switch {
	case status >= 200 && status < 400, status == 0 && fine:
		return model.ClassOK
	case status == 429:
		return model.ClassRateLimited
	case status == 401, status == 403:
		return model.ClassAuth
	case status == 402:
		return model.ClassQuotaExhausted
	case status == 408, status == 499:
		return model.ClassTransport
	case status >= 500 && status < 600:
		return model.ClassOverloaded
	case status >= 400 && status < 500:
		return model.ClassInvalid
	case status == 0:
		return model.ClassTransport
	}
	return 0
}
