// Package classify judges what became of an attempt: it turns a provider's
// answer into a class, the limit it met, and the time to wait.
//
// Rules come in layers: the user's table, the rules of the provider's family,
// the generic rules, and at last the HTTP status alone. All but the last are
// data (rules/*.yaml), versioned, checked when loaded, and named in every
// verdict as family/rule@version, so that an old event can be judged again.
//
// The package judges envelopes, never answer text: an error member, a code, a
// finish reason, a missing end. What a model said about "429" is skipped
// unread, and nothing of a prompt, an answer or a key leaves the package.
//
// Any input is normal: wrapped, truncated, mislabelled, compressed, huge,
// hostile. Work is linear in what is looked at, which is bounded: MaxBody bytes
// of a body, 64 KiB of a stream's frame, 8 KiB of error text, a few levels of
// nesting. Nothing here does I/O, reads a clock or starts a goroutine.
//
// A Classifier never changes after New and serves any number of goroutines; a
// Stream belongs to one.
package classify
