// Package assert judges simulated runs by name: that the load never collapses,
// that it recovers within a time, that nobody is treated worse than others. An
// assertion is a line of text with its bounds, so that a report can say what
// was held to what, and a law that breaks it is named by what it broke.
//
// Every assertion is judged seed by seed and holds when it holds on all of
// them. The package runs nothing: it looks at results.
package assert
