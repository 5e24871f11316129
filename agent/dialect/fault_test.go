package dialect

import (
	"testing"
	"time"

	"weir/model"
)

func TestFault(t *testing.T) {
	f := Fault{Class: model.ClassOverloaded, Code: "2064", Message: "busy", Channel: "main", Wait: 1500 * time.Millisecond, Position: 3, Request: "r1"}
	for _, tt := range []struct {
		d    Dialect
		want string
	}{
		{Chat, `{"error":{"message":"busy","type":"server_error","param":null,"code":"2064","weir":{"class":"overloaded","channel":"main","wait_s":1.5,"position":3}}}`},
		{Messages, `{"type":"error","error":{"message":"busy","type":"overloaded_error","param":null,"code":"2064","weir":{"class":"overloaded","channel":"main","wait_s":1.5,"position":3}},"request_id":"r1"}`},
	} {
		if got := string(f.JSON(tt.d)); got != tt.want {
			t.Errorf("dialect %v:\ngot  %s\nwant %s", tt.d, got, tt.want)
		}
	}
	frame := `event: error` + "\n" + `data: {"type":"error","message":"busy","code":"2064","param":null,"error":{"message":"busy","type":"server_error","param":null,"code":"2064","weir":{"class":"overloaded","channel":"main","wait_s":1.5,"position":3}}}` + "\n\n"
	if got := string(f.Frame(Responses)); got != frame {
		t.Errorf("got  %s\nwant %s", got, frame)
	}
}

func TestFaultStatus(t *testing.T) {
	want := map[model.Class]int{
		model.ClassRateLimited: 429, model.ClassQuotaExhausted: 429, model.ClassInvalid: 400,
		model.ClassOverloaded: 503, model.ClassAuth: 503, model.ClassTransport: 503,
	}
	for c, status := range want {
		f := Fault{Class: c, Wait: -1}
		if got := f.HTTPStatus(); got != status {
			t.Errorf("%v: status %d, want %d", c, got, status)
		}
	}
}

func TestOf(t *testing.T) {
	for p, want := range map[string]Dialect{
		"/v1/chat/completions": Chat, "/v1/messages": Messages, "/v1/messages/count_tokens": Count,
		"/v1/embeddings": Embeddings, "/v1/rerank": Media, "/v1/images/edits": Media, "/v1/audio/speech": Media,
		"/v1/files": Other, "/v1/responses/r_1": Other, "/v1/messages/batches": Batches, "/v1/text/chatcompletion_v2": Other,
	} {
		if got, ok := Of(p); got != want || !ok {
			t.Errorf("Of(%q) = %v, %v", p, got, ok)
		}
	}
	for _, p := range []string{"/", "/v1", "/v1/", "/v2/x", "/v1/../admin", "/v1/a/../../b", "/v1//x", "/v1/x/", "/v1/a%2fb", "/v1/organization/admin_api_keys", "/v1/organizations/me", "/v1/a\\b", "http://other/v1/x"} {
		if _, ok := Of(p); ok {
			t.Errorf("Of(%q) is allowed", p)
		}
	}
}
