package calibrate

// Field is what a column means.
type Field string

// The fields, as --column names them.
const (
	FieldTime    Field = "time"
	FieldEnd     Field = "end"
	FieldLatency Field = "latency"
	FieldRequest Field = "request_id"
	FieldAttempt Field = "attempt"
	FieldChannel Field = "channel"
	FieldTenant  Field = "tenant"
	FieldInput   Field = "input_tokens"
	FieldOutput  Field = "output_tokens"
	FieldStatus  Field = "http_status"
	FieldClass   Field = "error_class"
	FieldRetry   Field = "retry_after"
)

// Fields lists every field in a fixed order.
func Fields() []Field {
	return []Field{
		FieldTime, FieldEnd, FieldLatency, FieldRequest, FieldAttempt, FieldChannel, FieldTenant, FieldInput, FieldOutput,
		FieldStatus, FieldClass, FieldRetry,
	}
}

// known are the names of columns that need no mapping, in order of preference:
// those of weir log export, of LiteLLM's logs, and of OpenTelemetry's GenAI
// spans, by their current and their former names.
func known() map[Field][]string {
	return map[Field][]string{
		FieldTime:    {"timestamp", "time", "starttime", "start_time", "start_time_unix_nano", "starttimeunixnano", "created_at", "ts"},
		FieldEnd:     {"endtime", "end_time", "end_time_unix_nano", "endtimeunixnano"},
		FieldLatency: {"latency_ms", "duration_ms", "request_duration_ms", "response_time", "latency_s", "duration_s", "latency", "duration", "gen_ai.client.operation.duration"},
		FieldRequest: {"request_id", "litellm_call_id", "call_id", "trace_id", "traceid", "id"},
		FieldAttempt: {"attempt", "attempted_retries", "http.request.resend_count"},
		FieldChannel: {"channel", "model_id", "gen_ai.request.model", "gen_ai.response.model", "model", "model_group"},
		FieldTenant:  {"tenant", "team_alias", "team_id", "end_user", "user", "api_key_alias", "user_id", "service.name"},
		FieldInput:   {"input_tokens", "prompt_tokens", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "usage.prompt_tokens", "usage.input_tokens"},
		FieldOutput:  {"output_tokens", "completion_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "usage.completion_tokens", "usage.output_tokens"},
		FieldStatus:  {"http_status", "http.response.status_code", "http.status_code", "status_code", "error_information.error_code", "metadata.error_information.error_code"},
		FieldClass:   {"error_class", "error.type", "error_information.error_class", "metadata.error_information.error_class", "exception_class", "status"},
		FieldRetry:   {"retry_after_s", "retry_after", "retry_after_ms"},
	}
}
