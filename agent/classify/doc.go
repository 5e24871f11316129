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
// # Rule tables
//
// A table is a YAML file: version (raised with every change), family (the
// first half of a rule's name), providers (the names it speaks for; none means
// all), marks (envelope keys that give the family away under another name) and
// rules. The first rule of which every condition holds decides:
//
//   - status: any of 429, 500-599, 5xx; of a code in HTTP 200 that is one, too
//   - code: the answer's codes or types, as they are; a final star stands for more
//   - words, and: any phrase of each list, in codes and texts alike; unless: none
//   - pattern: a regular expression over the text
//   - finish: why the model stopped
//   - within, beyond: the wait that was told is at most, at least this long
//
// and says class, dimension (or guess, when the words say none) and scope. The
// generic table has measures besides, which tell a limit's dimension by words.
//
// A Classifier never changes after New and serves any number of goroutines; a
// Stream belongs to one.
package classify
