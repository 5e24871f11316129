// Package incidents holds the built-in incident files, one world each.
package incidents

import "embed"

//go:embed *.yaml
var files embed.FS

// Files returns the built-in incident files, NAME.yaml in one flat folder.
func Files() embed.FS { return files }
