package classify

import "bytes"

// role is what a member of an envelope means, judged by its key alone.
type role uint8

const (
	roleNone    role = iota
	roleError        // the error itself: object, list, text or flag
	roleCode         // a code that is zero, or absent, on success
	roleKind         // a type, reason or status in words
	roleText         // words for people
	roleInto         // an object with more of the same
	roleData         // the payload of a wrapper, or more about the error
	roleFlag         // false on failure
	roleObject       // the name of the root's shape
	rolePayload      // holds what a model said, or part of it
	roleContent      // what a model said
	roleFinish       // why a model stopped
	roleDone         // true at the end
	roleUsage        // tokens used
	roleCount        // a counter that some providers keep beside the answer
	roleWait         // a wait or a reset
	roleHeaders      // header fields of another answer
	roleLimit
	roleRemaining
	roleUsed
	roleBlocked // why a prompt was refused
	roleIgnore  // free text of the caller, or large and without meaning here
)

// plainKey lower-cases key and drops its separators, so that retry_after,
// Retry-After and retryAfter are one. Keys too long to mean anything give nil.
func plainKey(dst []byte, key []byte) []byte {
	if len(key) > 40 {
		return nil
	}
	for _, c := range key {
		switch {
		case c >= 'A' && c <= 'Z':
			dst = append(dst, c|0x20)
		case c == '_' || c == '-' || c == '.' || c == ' ':
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func roleOf(key []byte) role {
	switch string(key) {
	case "error", "errors", "err", "baseresp", "fault", "exception", "lasterror", "innererror", "innerror", "failure", "problem", "upstreamerror", "errorresponse", "originalerror":
		return roleError
	case "code", "errorcode", "errcode", "errno", "errorno", "statuscode", "httpcode", "httpstatus", "httpstatuscode", "subcode", "ret", "retcode", "returncode", "resultcode", "bizcode", "respcode", "ecode", "rawstatuscode", "originalstatuscode":
		return roleCode
	case "type", "errortype", "errtype", "reason", "status", "quotaid", "quotalimit", "quotametric", "limitsource", "ratelimittype", "kind", "category", "exceptiontype", "limittype", "errorname", "limitname", "period", "rule", "faultcode", "errorkind", "subtype", "event":
		return roleKind
	case "message", "msg", "errormessage", "errormsg", "errmsg", "statusmsg", "statusmessage", "detail", "description", "errordescription", "title", "raw", "retmsg", "desc", "reasonphrase", "faultstring", "cause", "explanation", "failurereason", "usermessage", "localizedmessage", "statustext", "retinfo", "errorinfo", "errinfo", "messagezh", "messageen", "messagecn":
		return roleText
	case "details", "metadata", "violations", "response", "header", "errordetails", "additionalinfo", "debuginfo", "errordata", "extra", "providerresponse", "ratelimit", "quota", "meta", "metainfo", "promptfeedback":
		return roleInto
	case "data":
		return roleData
	case "success", "ok", "issuccess", "succeeded":
		return roleFlag
	case "object":
		return roleObject
	case "choices", "candidates", "output", "outputs", "delta", "contentblock", "contentblockdelta", "contentblockstart", "messagestart", "messagestop", "result", "results", "predictions", "generations", "item", "part", "parts":
		return rolePayload
	case "content", "text", "reasoningcontent", "reasoning", "thinking", "partialjson", "toolcalls", "toolcall", "functioncall", "refusal", "audio", "arguments", "generatedtext", "token", "reply", "outputtext", "embedding", "embeddings", "images", "image", "segments", "completion", "completions", "answer", "b64json", "inlinedata", "toolplan", "tooluse", "completionmessage", "rerank", "scores":
		return roleContent
	case "finishreason", "stopreason", "donereason":
		return roleFinish
	case "done", "isend", "isfinished", "stop":
		return roleDone
	case "usage", "usagemetadata", "tokenusage", "billedunits":
		return roleUsage
	case "promptevalcount", "evalcount":
		return roleCount
	case "retryafter", "retryafterms", "retryaftermilliseconds", "retryafterseconds", "retryaftersec", "retryafters", "retrydelay", "retrydelayms", "retryin", "retryinseconds", "retryinms", "waitseconds", "waittime", "wait", "waitms", "resetsinseconds", "resetinseconds", "resetseconds", "resetsin", "resetin", "resetafter", "resetafterseconds", "resetms", "estimatedtime", "cooldown", "cooldownseconds", "backoffseconds", "quotaresetdelay", "secondsuntilreset",
		"resetsat", "resetat", "resettime", "reset", "nextreset", "retryat", "availableat", "quotaresettimestamp", "nextretryat", "unblockat", "resettimestamp":
		return roleWait
	case "headers":
		return roleHeaders
	case "limit", "quotavalue", "limitvalue", "ratelimitlimit", "maxrequests", "maxlimit", "quotalimitvalue":
		return roleLimit
	case "remaining", "remainingrequests", "remainingtokens", "ratelimitremaining", "requestsremaining":
		return roleRemaining
	case "used", "current", "currentusage":
		return roleUsed
	case "blockreason":
		return roleBlocked
	case "failedgeneration", "flaggedinput", "input", "args", "logprobs", "instructions", "tools", "cooldownlist", "headersent", "parameters", "requestbody":
		return roleIgnore
	}
	switch {
	case bytes.HasSuffix(key, []byte("exception")):
		return roleError
	case bytes.HasSuffix(key, []byte("message")), bytes.HasSuffix(key, []byte("msg")):
		return roleText
	}
	return roleNone
}

// succeeds reports whether value, a code or a status in words, means success
// or no more than that work goes on.
func succeeds(value []byte) bool {
	switch string(bytes.ToLower(value)) {
	case "", "0", "00000", "0000", "000000", "200", "201", "202", "ok", "success", "succeeded", "successful", "completed", "complete", "finished", "true", "null", "none",
		"in_progress", "incomplete", "queued", "running", "processing", "active", "enabled", "stop", "成功", "操作成功", "请求成功", "success.", "0.0":
		return true
	}
	return false
}
