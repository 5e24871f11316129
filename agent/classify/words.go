package classify

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// words turns text into the form phrases are matched in: lower case, single
// spaces between words, a space at both ends, no punctuation. CamelCase and
// codes_with_separators fall apart into words, Chinese stands apart from Latin
// and is written in simplified characters,
// "calls/min" reads "calls per min", and "80,000" is one number. Links are
// left out but for their fragment: what they are called says nothing.
func words(dst, text []byte) []byte {
	dst = gap(dst)
	var last rune
	for i := 0; i < len(text); {
		c := rune(text[i])
		size := 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRune(text[i:])
		}
		switch {
		case c == 'h' && isLink(text[i:]):
			n := linkEnd(text[i:])
			if at := bytes.IndexByte(text[i:i+n], '#'); at >= 0 && n-at < 40 {
				dst = words(dst, text[i+at+1:i+n])
			}
			dst, last = gap(dst), ' '
			i += n
			continue
		case c == '/' && isUnit(text[i+1:]):
			dst = append(gap(dst), "per "...)
			c = ' '
		case c == ',' && isDigit(last) && i+1 < len(text) && isDigit(rune(text[i+1])):
			i++ // the comma of 80,000
			continue
		case isLetter(c) || isDigit(c):
			if c >= 'A' && c <= 'Z' {
				if startsWord(last, text[i+1:]) {
					dst = gap(dst)
				}
				dst = append(dst, byte(c|0x20))
				break
			}
			if last >= utf8.RuneSelf {
				dst = gap(dst)
			}
			dst = append(dst, byte(c))
		case c >= utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)):
			if last < utf8.RuneSelf {
				dst = gap(dst)
			}
			dst = utf8.AppendRune(dst, plainRune(c))
		default:
			dst = gap(dst)
			c = ' '
		}
		last = c
		i += size
	}
	return gap(dst)
}

// traditional lists Chinese characters of error messages in their traditional
// form, simple the same in the simplified one, in which phrases are compared.
const (
	traditional = "餘額請過頻錯誤無網關連線時間後試達數據務載負擁擠隊認證權號帳戶鑰驗費開啟運資產單價儲調當併發內長輸審違規處統獲類參異絕環態應總計鎖聯繫員購買訂閱還點擊結暫維護門飽滿極復個級碼嘗觸機鑑經銀專業對現選這種該"
	simple      = "余额请过频错误无网关连线时间后试达数据务载负拥挤队认证权号账户钥验费开启运资产单价储调当并发内长输审违规处统获类参异绝环态应总计锁联系员购买订阅还点击结暂维护门饱满极复个级码尝触机鉴经银专业对现选这种该"
)

// plainRune returns a letter beyond ASCII in lower case and, where it is a
// traditional Chinese one that error messages use, in its simplified form.
func plainRune(c rune) rune {
	if c < 0x4e00 || c > 0x9fff {
		return unicode.ToLower(c)
	}
	at := strings.IndexRune(traditional, c)
	if at < 0 {
		return c
	}
	r, _ := utf8.DecodeRuneInString(simple[at:]) // each has three bytes in both
	return r
}

// gap ends dst with exactly one space.
func gap(dst []byte) []byte {
	if n := len(dst); n == 0 || dst[n-1] != ' ' {
		dst = append(dst, ' ')
	}
	return dst
}

func isLetter(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c rune) bool  { return c >= '0' && c <= '9' }
func isUpper(c rune) bool  { return c >= 'A' && c <= 'Z' }

// startsWord reports whether an upper-case letter between last and rest begins
// a word: perMinute, TPMExceeded.
func startsWord(last rune, rest []byte) bool {
	switch {
	case last >= utf8.RuneSelf, last >= 'a' && last <= 'z', isDigit(last):
		return true
	case !isUpper(last) || len(rest) < 2:
		return false
	}
	return rest[0] >= 'a' && rest[0] <= 'z' && rest[1] >= 'a' && rest[1] <= 'z'
}

func isLink(b []byte) bool {
	return bytes.HasPrefix(b, []byte("https://")) || bytes.HasPrefix(b, []byte("http://"))
}

func linkEnd(b []byte) int {
	if n := bytes.IndexAny(b, " \t\r\n\"'<>)"); n >= 0 {
		return n
	}
	return len(b)
}

// isUnit reports whether b begins with a unit of time, as after "calls /".
func isUnit(b []byte) bool {
	b = bytes.TrimLeft(b[:min(len(b), 12)], " ")
	n := 0
	for n < len(b) && isLetter(rune(b[n])) {
		n++
	}
	if n == 0 {
		return bytes.HasPrefix(b, []byte("分")) || bytes.HasPrefix(b, []byte("秒")) || bytes.HasPrefix(b, []byte("天")) || bytes.HasPrefix(b, []byte("日"))
	}
	switch strings.ToLower(string(b[:n])) {
	case "s", "sec", "second", "m", "min", "minute", "h", "hr", "hour", "d", "day", "week", "month":
		return true
	}
	return false
}

// wordText is text in the form words makes, with an index that rules most
// phrases out at once.
type wordText struct {
	text []byte
	// starts has a bit for what each word begins with, by startBit.
	starts [startBits / 64]uint64
}

const startBits = 4096

// startBit hashes the beginning of a word, or a Chinese letter.
func startBit(b []byte) uint {
	h := uint(0)
	for _, c := range b {
		h = h*37 + uint(c)
	}
	return h % startBits
}

func newWordText(text []byte) wordText {
	w := wordText{text: text}
	set := func(b []byte) {
		n := startBit(b)
		w.starts[n/64] |= 1 << (n % 64)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == ' ' && i+3 < len(text):
			set(text[i+1 : i+3])
			set(text[i+1 : i+4])
		case c == ' ' && i+2 < len(text):
			set(text[i+1 : i+3])
		case c >= utf8.RuneSelf && utf8.RuneStart(c):
			_, n := utf8.DecodeRune(text[i:])
			set(text[i : i+n])
		}
	}
	return w
}

// phrase is words to look for. A star stands for up to maxGap bytes; a Latin
// word matches from its beginning, so that "throttl" finds "throttling".
type phrase struct {
	parts [][]byte
	start uint // what the first part begins with, by startBit
}

// maxGap is how much a star in a phrase may pass over.
const maxGap = 60

// newPhrase compiles a phrase of a rule table; one without words has no parts
// and is refused by the loader.
func newPhrase(s string) phrase {
	var p phrase
	for part := range strings.SplitSeq(s, "*") {
		w := words(nil, []byte(part))
		w = bytes.TrimRight(w, " ")
		if len(w) == 0 {
			continue
		}
		if r, _ := utf8.DecodeRune(w[1:]); r >= utf8.RuneSelf {
			w = w[1:] // Chinese has no spaces to begin at
		}
		p.parts = append(p.parts, w)
	}
	if len(p.parts) > 0 {
		first := p.parts[0]
		if first[0] == ' ' {
			p.start = startBit(first[1:min(4, len(first))])
		} else {
			_, n := utf8.DecodeRune(first)
			p.start = startBit(first[:n])
		}
	}
	return p
}

// in reports whether the phrase stands in w.
func (p *phrase) in(w *wordText) bool {
	if w.starts[p.start/64]&(1<<(p.start%64)) == 0 {
		return false
	}
	text := w.text
	for {
		at := bytes.Index(text, p.parts[0])
		if at < 0 {
			return false
		}
		text = text[at+len(p.parts[0]):]
		if p.follows(text) {
			return true
		}
	}
}

// follows reports whether the parts after the first stand near the start of
// text, each near the one before.
func (p *phrase) follows(text []byte) bool {
	for _, part := range p.parts[1:] {
		at := bytes.Index(text[:min(len(text), maxGap+len(part))], part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// plainText strips the tags, scripts and styles of a page.
func plainText(dst, page []byte, limit int) []byte {
	for len(page) > 0 && len(dst) < limit {
		at := bytes.IndexByte(page, '<')
		if at < 0 {
			at = len(page)
		}
		dst = append(dst, page[:min(at, limit-len(dst))]...)
		dst = append(dst, ' ')
		page = page[at:]
		end := []byte(">")
		switch {
		case hasPrefixFold(page, "<script"):
			end = []byte("</script>")
		case hasPrefixFold(page, "<style"):
			end = []byte("</style>")
		}
		n := bytes.Index(page, end)
		if n < 0 {
			break
		}
		page = page[n+len(end):]
	}
	return dst
}

func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && strings.EqualFold(string(b[:len(prefix)]), prefix)
}
