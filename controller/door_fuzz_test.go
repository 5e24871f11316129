package controller

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// FuzzDoor sends anything through the door and reads what comes out as the
// server would: lines it knows, and no message whose answer goes elsewhere than
// to an inbox.
func FuzzDoor(f *testing.F) {
	for _, text := range []string{
		"CONNECT {\"verbose\":false}\r\nPING\r\nPONG\r\n", "SUB a.* q 1\r\nUNSUB 1 5\r\n", "PUB a 1\r\nx\r\nPUB a _INBOX.x 2\r\n\r\n\r\n", "pub\ta b\t1\r\nx\r\n",
		"HPUB a _INBOX.b 12 13\r\nNATS/1.0\r\n\r\nx\r\nPUB a b 0\r\n\r\n", "PUB a\r b 1\r\nx\r\n", "PUB a 30\r\nPUB b $JS.API 0\r\n\r\nPUB a b 0\r\n\r\n", "PUB a +1\r\nx\r\n", "PUB a 0x1\r\nx\r\n", "PUB a 1 \nx\r\n",
	} {
		f.Add([]byte(text))
	}
	line := regexp.MustCompile(`^(?:CONNECT|PING|PONG|SUB|UNSUB|PUB|HPUB)(?:[ \t][^\r\n\x00]*)?\r\n`)
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		if err := pass(&out, bytes.NewReader(data)); err == nil {
			t.Fatal("it goes on behind the end")
		}
		for rest := out.Bytes(); len(rest) > 0; {
			head := line.Find(rest)
			if head == nil {
				if bytes.IndexByte(rest, '\n') >= 0 {
					t.Fatalf("%q came out of %q", rest, data)
				}
				return // the end of a whole that was not flushed
			}
			rest = rest[len(head):]
			words := strings.FieldsFunc(string(head), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
			sizes := map[string]int{"PUB": 1, "HPUB": 2}[words[0]]
			if sizes == 0 {
				continue
			}
			if len(words) == 3+sizes && !strings.HasPrefix(words[2], "_INBOX") {
				t.Fatalf("an answer is wanted at %q: %q", words[2], data)
			}
			size, err := strconv.Atoi(words[len(words)-1])
			if err != nil || size < 0 {
				t.Fatalf("%q has no size: %q", head, data)
			}
			rest = rest[min(size+2, len(rest)):]
		}
	})
}
