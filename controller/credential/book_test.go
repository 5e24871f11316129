package credential_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"weir/controller/credential"
)

func book(t *testing.T) *credential.Book {
	t.Helper()
	b, err := credential.Open(filepath.Join(t.TempDir(), "credentials"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func add(t *testing.T, b *credential.Book, name string, role credential.Role) string {
	t.Helper()
	file, err := b.Add(name, role, "")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestBook(t *testing.T) {
	b := book(t)
	if list, err := b.List(); err != nil || len(list) != 0 {
		t.Fatalf("a new book has %v, %v", list, err)
	}
	before := b.Stamp()
	web := add(t, b, "web-1", credential.Agent)
	add(t, b, "operator", credential.Operator)
	if b.Stamp() == before {
		t.Error("the stamp is the same after a change")
	}
	list, err := b.List()
	if err != nil || len(list) != 2 || list[0].Name != "operator" || list[1].Role != credential.Agent {
		t.Fatalf("List = %v, %v", list, err)
	}
	data, err := os.ReadFile(web)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(data)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := pair.PublicKey(); err != nil || key != list[1].Key {
		t.Errorf("the secret half is of %s, listed is %s (%v)", key, list[1].Key, err)
	}
	if h, err := credential.Holds(web); err != nil || h != (credential.Holder{Name: "web-1", Role: credential.Agent}) {
		t.Errorf("Holds = %v, %v", h, err)
	}

	if _, err := b.Add("web-1", credential.Agent, ""); !errors.Is(err, credential.ErrExists) {
		t.Errorf("a second of one name: %v", err)
	}
	if _, err := b.Add("../x", credential.Agent, ""); err == nil {
		t.Error("a name that is a path is taken")
	}
	if _, err := b.Add("control", credential.Agent, ""); err == nil {
		t.Error("the controller's own name is taken")
	}
	if err := b.Revoke("web-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(web); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the secret half of a revoked credential: %v", err)
	}
	if err := b.Revoke("web-1"); !errors.Is(err, credential.ErrUnknown) {
		t.Errorf("revoked twice: %v", err)
	}
	left, err := b.List()
	if diff := cmp.Diff(list[:1], left); err != nil || diff != "" {
		t.Errorf("after revoking: %v\n%s", err, diff)
	}
}

// TestBoundWorkers holds that a tenant stands in both halves, and only workers
// have one.
func TestBoundWorkers(t *testing.T) {
	b := book(t)
	file, err := b.Add("w", credential.Worker, "content.cn")
	if err != nil {
		t.Fatal(err)
	}
	if h, err := credential.Holds(file); err != nil || h != (credential.Holder{Name: "w", Role: credential.Worker, Tenant: "content.cn"}) {
		t.Errorf("Holds = %v, %v", h, err)
	}
	if list, err := b.List(); err != nil || len(list) != 1 || list[0].Tenant != "content.cn" {
		t.Errorf("List = %v, %v", list, err)
	}
	for tenant, role := range map[string]credential.Role{"t": credential.Agent, "u": credential.Operator, "two words": credential.Worker, "line\nbreak": credential.Worker, strings.Repeat("x", 65): credential.AnyWorker} {
		if _, err := b.Add("x", role, tenant); err == nil {
			t.Errorf("%s of tenant %q is taken", role, tenant)
		}
	}
}

// TestSecretsAreForTheOwner looks at what others could read.
func TestSecretsAreForTheOwner(t *testing.T) {
	b := book(t)
	add(t, b, "a", credential.Agent)
	err := filepath.WalkDir(b.Dir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) == "lock" { // it is empty
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(b.File("a"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := credential.Holds(b.File("a")); err == nil || !strings.Contains(err.Error(), "0640") {
		t.Errorf("a key that a group may read: %v", err)
	}
}

// TestDamagedBook lets nobody in by a guess.
func TestDamagedBook(t *testing.T) {
	b := book(t)
	add(t, b, "a", credential.Agent)
	allowed := filepath.Join(b.Dir(), "allowed")
	good, err := os.ReadFile(allowed)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Fields(string(good))
	public := key[len(key)-1]
	for what, text := range map[string]string{
		"two words":    "a agent\n",
		"unknown role": "a root " + public + "\n",
		"no key":       "a agent " + public[1:] + "\n",
		"twice":        "a agent " + public + "\na agent " + public + "\n",
		"bad name":     "a.b agent " + public + "\n",
		"a huge one":   strings.Repeat("#", 30<<20),
	} {
		if err := os.WriteFile(allowed, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := b.List(); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", what, list, err)
		}
		if _, err := b.Add("b", credential.Agent, ""); err == nil {
			t.Errorf("%s: it is written over", what)
		}
	}
	if err := os.WriteFile(allowed, append([]byte("# by hand\r\n\r\n"), good...), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := b.List(); err != nil || len(list) != 1 {
		t.Errorf("comments and blank lines: %v, %v", list, err)
	}
}

func TestForeignSeeds(t *testing.T) {
	dir := t.TempDir()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"bare": string(seed), "forged": "# weir credential ../x agent\n" + string(seed)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err := credential.Holds(path); err != nil || h != (credential.Holder{}) {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
	path := filepath.Join(dir, "none")
	if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := credential.Holds(path); err == nil {
		t.Error("a file without a key is taken")
	}
}

// FuzzFiles reads books and secret halves: what is taken is written and read
// again as it is, and a fault shows no key.
func FuzzFiles(f *testing.F) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		f.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		f.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("# words\nweb-1 agent " + key + "\nops operator " + key + "\n"))
	f.Add([]byte("web-1 king " + key))
	f.Add([]byte("# weir credential web-1 agent\n" + string(seed) + "\n"))
	f.Add([]byte("# weir credential\n\n\n" + string(seed)))
	dir := filepath.Join(f.TempDir(), "credentials")
	b, err := credential.Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"allowed", "web-1.nk"} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list, err := b.List()
		if err != nil && (len(list) > 0 || strings.Contains(err.Error(), string(seed))) {
			t.Errorf("%d credentials, error %v", len(list), err)
		}
		for _, c := range list {
			if !nkeys.IsValidPublicUserKey(c.Key) || c.Name == "" {
				t.Errorf("took %+v", c)
			}
		}
		h, err := credential.Holds(b.File("web-1"))
		if err != nil && (h != credential.Holder{} || strings.Contains(err.Error(), string(seed))) {
			t.Errorf("holder %+v, error %v", h, err)
		}
	})
}
