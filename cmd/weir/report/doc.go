// Package report shows a run to people: one HTML file with charts, figures,
// decisions and data, and one SVG picture of the same.
//
// A Run is plain data: phases on the same clock, each with the figures of what
// was counted, columns of samples, the decisions taken and the script's marks.
// The package computes nothing of its own but layout and the rows that set the
// phases' figures side by side, so terminal, page and picture cannot disagree.
//
// The HTML file asks nobody for anything: its script, style and data are in
// it, and its content policy forbids every request. It reads on light and dark
// screens and on paper. While a run goes on the same page is served of what there
// is so far, and then asks its own address, and nobody else. Text is escaped wherever it comes from. The package
// starts no goroutine and keeps nothing.
package report
