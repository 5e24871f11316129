package credential

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nkeys"

	"weir/events"
)

// Role is what the holder of a credential may do.
type Role string

// The roles.
const (
	// Agent reports and hears as the one agent of the credential's name.
	Agent Role = "agent"
	// AnyAgent reports and hears as any agent of the fleet: for machines that
	// come and go under names of their own.
	AnyAgent Role = "any-agent"
	// Worker and AnyWorker are agents that take tasks and work on them, where the
	// fleet has them: on any task of any tenant, or on those of the credential's.
	// Other agents reach none.
	Worker    Role = "worker"
	AnyWorker Role = "any-worker"
	// Operator reads and writes everything of the fleet: the commands that
	// look into the log.
	Operator Role = "operator"
)

// Works reports whether the holder works on tasks.
func (r Role) Works() bool { return r == Worker || r == AnyWorker }

// Single reports whether the holder is one agent, that of the credential's name.
func (r Role) Single() bool { return r == Agent || r == Worker }

// Errors of a Book.
var (
	ErrExists  = errors.New("there is one already")
	ErrUnknown = errors.New("there is none")
)

// Credential is one line of a book.
type Credential struct {
	// Name is an agent's name, or what an operator calls it.
	Name string
	Role Role
	// Key is the public half.
	Key string
	// Tenant is whose tasks alone a worker reaches, in the room of that tenant;
	// empty means all.
	Tenant string
}

// The bounds of a book: every line is held in memory and by the server.
const (
	maxCredentials = 100_000
	maxBook        = maxCredentials * 300 // bytes
	maxTenant      = events.MaxName       // bytes
)

// The files of a book.
const (
	allowedFile = "allowed"
	lockFile    = "lock"
	suffix      = ".nk"
)

// Book is a folder of credentials.
type Book struct{ dir string }

// Open returns the book in a folder, which it makes if it is not there.
func Open(dir string) (*Book, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make credentials folder: %w", err)
	}
	return &Book{dir: dir}, nil
}

// Dir returns the folder.
func (b *Book) Dir() string { return b.dir }

// File returns where the secret half of a name is put.
func (b *Book) File(name string) string { return filepath.Join(b.dir, name+suffix) }

// Stamp changes when the book does.
func (b *Book) Stamp() string {
	info, err := os.Stat(filepath.Join(b.dir, allowedFile))
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}

// List returns who may connect, by name. A book that is damaged is an error
// with the line's number: nobody is let in or locked out by a guess.
func (b *Book) List() ([]Credential, error) {
	path := filepath.Join(b.dir, allowedFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxBook+1))
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	if len(data) > maxBook {
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxBook)
	}
	list, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return list, nil
}

// parse reads a book. Its errors begin with the line's number.
func parse(data []byte) ([]Credential, error) {
	var list []Credential
	names := map[string]bool{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		c, err := parseLine(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%d: %w", n, err)
		case names[c.Name]:
			return nil, fmt.Errorf("%d: %s stands here twice", n, c.Name)
		case len(list) == maxCredentials:
			return nil, fmt.Errorf("%d: more than %d credentials", n, maxCredentials)
		}
		names[c.Name] = true
		list = append(list, c)
	}
	return list, nil
}

func parseLine(text string) (Credential, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 && len(fields) != 4 {
		return Credential{}, fmt.Errorf("want NAME ROLE PUBLIC-KEY, and the TENANT of some workers, got %d words", len(fields))
	}
	c := Credential{Name: fields[0], Role: Role(fields[1]), Key: fields[2]}
	if len(fields) == 4 {
		c.Tenant = fields[3]
	}
	if err := check(c.Name, c.Role, c.Tenant); err != nil {
		return c, err
	}
	switch c.Role {
	case Agent, AnyAgent, Worker, AnyWorker, Operator:
	default:
		return c, fmt.Errorf("role %q: want %s, %s, %s, %s or %s", c.Role, Agent, AnyAgent, Worker, AnyWorker, Operator)
	}
	if !nkeys.IsValidPublicUserKey(c.Key) {
		return c, errors.New("the third word is no public key of a user")
	}
	return c, nil
}

// check says what is wrong with whom a credential is for.
func check(name string, role Role, tenant string) error {
	switch {
	case tenant == "":
	case !role.Works():
		return fmt.Errorf("role %s reaches no tasks: only %s and %s are bound to a tenant", role, Worker, AnyWorker)
	case len(tenant) > maxTenant || strings.ContainsFunc(tenant, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("tenant %q: want 1 to %d characters of printable ASCII", tenant, maxTenant)
	}
	return events.CheckAgent(name)
}

// Add makes a credential and returns the file with its secret half. The tenant
// is empty but for workers that are bound to one. A name that is taken is
// ErrExists.
func (b *Book) Add(name string, role Role, tenant string) (file string, err error) {
	if err := check(name, role, tenant); err != nil {
		return "", err
	}
	err = b.change(func(list []Credential) ([]Credential, error) {
		if slices.ContainsFunc(list, func(c Credential) bool { return c.Name == name }) {
			return nil, fmt.Errorf("credential %s: %w", name, ErrExists)
		}
		c, err := b.make(name, role, tenant)
		return append(list, c), err
	})
	return b.File(name), err
}

// make makes a key pair and writes its secret half. One that is left of a try
// that was broken off is replaced: nobody was told of it.
func (b *Book) make(name string, role Role, tenant string) (Credential, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return Credential{}, fmt.Errorf("make key: %w", err)
	}
	defer pair.Wipe()
	key, err := pair.PublicKey()
	if err != nil {
		return Credential{}, fmt.Errorf("make key: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return Credential{}, fmt.Errorf("make key: %w", err)
	}
	text := fmt.Appendf(nil, "%s\n%s\n", strings.TrimSpace(fmt.Sprintln(seedMark, name, role, tenant)), seed)
	if err := replace(b.File(name), text); err != nil {
		return Credential{}, fmt.Errorf("write key: %w", err)
	}
	return Credential{Name: name, Role: role, Key: key, Tenant: tenant}, nil
}

// Revoke ends a credential; its holder is cut off once the server heard. A
// name that is not there is ErrUnknown.
func (b *Book) Revoke(name string) error {
	return b.change(func(list []Credential) ([]Credential, error) {
		i := slices.IndexFunc(list, func(c Credential) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("credential %s: %w", name, ErrUnknown)
		}
		if err := os.Remove(b.File(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove key: %w", err)
		}
		return slices.Delete(list, i, i+1), nil
	})
}

// change reads the list, changes it and writes it, alone.
func (b *Book) change(edit func([]Credential) ([]Credential, error)) error {
	lock, err := vfs.Default.Lock(filepath.Join(b.dir, lockFile))
	if err != nil {
		return fmt.Errorf("change credentials in %s: another process does: %w", b.dir, err)
	}
	defer func() { _ = lock.Close() }() // it ends with the process too
	list, err := b.List()
	if err != nil {
		return err
	}
	if list, err = edit(list); err != nil {
		return err
	}
	slices.SortFunc(list, func(a, c Credential) int { return cmp.Compare(a.Name, c.Name) })
	text := []byte("# Who may connect to the fleet's NATS: NAME ROLE PUBLIC-KEY [TENANT]. Changed by weir credential.\n")
	for _, c := range list {
		text = append(text, strings.TrimSpace(fmt.Sprintln(c.Name, c.Role, c.Key, c.Tenant))+"\n"...)
	}
	if err := replace(filepath.Join(b.dir, allowedFile), text); err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	return nil
}

// replace writes a file of mode 0600 as a whole.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
