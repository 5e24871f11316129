// Package tunereport shows a study of the laws' parameters to people: one HTML
// page with the verdict, what it would change, every incident before and after,
// the way of the search with its hold-out line, the front of what cannot be
// improved in everything, and what each parameter does.
//
// A Study is plain data. The page asks nobody for anything: its script, style
// and data are in it, and its content policy forbids every request. The same
// study gives the same bytes. Text is escaped wherever it comes from. The
// package starts no goroutine and keeps nothing.
package tunereport
