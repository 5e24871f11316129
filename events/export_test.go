package events

// Held returns how many strings a decoder keeps, and their bytes.
func Held(d *Decoder) (n, size int) { return len(d.r.known), d.r.held }
