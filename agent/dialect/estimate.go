package dialect

import (
	"unicode/utf8"

	"weir/model"
)

// The estimate counts quarters of a token per character. Tokenizers of
// 2024–2026 make about four letters of Latin text a token, two of most other
// alphabets, and 0.6 to 0.9 tokens of a Chinese or Japanese character. The
// JSON around the text stands for the frame a chat template adds.
const (
	quartersASCII = 1
	quartersAlpha = 2
	quartersHan   = 3
	quartersRare  = 8

	// binaryRun is the length from which an unbroken run of base64
	// characters is taken for a picture or file, which costs binaryTokens
	// whatever its length.
	binaryRun    = 1024
	binaryTokens = 1000
)

// Estimate returns about how many tokens a request's JSON costs as input. It
// looks at characters by their script, sees through \u escapes, and counts a
// long base64 run as one picture. It is 1 at least.
func Estimate(raw []byte) model.Tokens {
	quarters, run := 0, 0
	for i := 0; i < len(raw); {
		c := raw[i]
		if c < utf8.RuneSelf && c != '\\' {
			i++
			quarters += quartersASCII
			if base64Char(c) {
				run++
				continue
			}
			quarters -= binarySurplus(run)
			run = 0
			continue
		}
		quarters -= binarySurplus(run)
		run = 0
		r, n := character(raw[i:])
		i += n
		quarters += quartersOf(r)
	}
	quarters -= binarySurplus(run)
	return model.Tokens(max(1, (quarters+3)/4))
}

// binarySurplus is what a run counted as letters but costs not as a picture.
func binarySurplus(run int) int {
	if run < binaryRun {
		return 0
	}
	return max(0, run*quartersASCII-binaryTokens*4)
}

func base64Char(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
}

// character decodes what stands at the start of b: an escape or UTF-8.
func character(b []byte) (r rune, size int) {
	if b[0] != '\\' {
		return utf8.DecodeRune(b)
	}
	if len(b) >= 6 && b[1] == 'u' {
		for _, c := range b[2:6] {
			r = r<<4 | hex(c)
		}
		return r, 6
	}
	return ' ', min(2, len(b))
}

func hex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return 0
}

func quartersOf(r rune) int {
	switch {
	case r < 0x80:
		return quartersASCII
	case r < 0x2E80:
		return quartersAlpha
	case r >= 0xD800 && r < 0xE000: // half of an escaped pair
		return quartersRare / 2
	case r < 0x1F000 || r >= 0x20000:
		return quartersHan
	}
	return quartersRare
}
