package credential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
)

// seedMark begins the first line of a secret half's file.
const seedMark = "# weir credential"

// maxSeed bounds the file: a line of words and one of 58 characters.
const maxSeed = 4096

// Holder is whom a secret half is for. Name is empty in a file that another
// program wrote.
type Holder struct {
	Name string
	Role Role
	// Tenant is whose tasks alone it reaches, empty for all.
	Tenant string
}

// Holds reads whom the file of a secret half is for. A file that others may
// read is an error, as it is for ssh: what it proves is worth nothing then.
func Holds(path string) (Holder, error) {
	f, err := os.Open(path)
	if err != nil {
		return Holder{}, fmt.Errorf("read credential: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return Holder{}, fmt.Errorf("read credential: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Holder{}, fmt.Errorf("read credential %s: others may read it (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSeed))
	if err != nil {
		return Holder{}, fmt.Errorf("read credential: %w", err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(data)
	if err != nil {
		return Holder{}, fmt.Errorf("read credential %s: %w", path, errors.New("there is no secret key of a user in it"))
	}
	pair.Wipe()
	first, _, _ := bytes.Cut(data, []byte("\n"))
	words := strings.Fields(strings.TrimPrefix(string(first), seedMark))
	if len(words) < 2 || len(words) > 3 || !strings.HasPrefix(string(first), seedMark) {
		return Holder{}, nil
	}
	h := Holder{Name: words[0], Role: Role(words[1])}
	if len(words) == 3 {
		h.Tenant = words[2]
	}
	if check(h.Name, h.Role, h.Tenant) != nil {
		return Holder{}, nil
	}
	return h, nil
}
