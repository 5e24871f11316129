package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/cmd/weir/config"
	"weir/controller"
	"weir/controller/credential"
)

// The credentials of a fleet that is on one machine. They are made with the
// book, and every process on the machine finds its own.
const (
	localAgents   = "agents"
	localOperator = "operator"
	tokenFile     = "token"
)

// openBook opens the book of who may connect. A new one lets in this machine:
// whoever may read the folder.
func openBook(n *config.NATS, log *slog.Logger) (*credential.Book, []credential.Credential, error) {
	book, err := credential.Open(n.Credentials)
	if err != nil {
		return nil, nil, err
	}
	list, err := book.List()
	if err != nil || list != nil {
		return book, list, err
	}
	if err := fill(book); err != nil {
		return nil, nil, err
	}
	log.Info("made credentials for this machine", slog.String("folder", book.Dir()))
	list, err = book.List()
	return book, list, err
}

// fill adds what this machine's processes show.
func fill(book *credential.Book) error {
	for name, role := range map[string]credential.Role{localAgents: credential.AnyWorker, localOperator: credential.Operator} {
		if _, err := book.Add(name, role, ""); err != nil && !errors.Is(err, credential.ErrExists) {
			return err
		}
	}
	return nil
}

// watchBook lets in and shuts out as the book changes, until ctx ends.
func watchBook(ctx context.Context, book *credential.Book, bus *controller.NATS, log *slog.Logger) {
	seen := book.Stamp()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		stamp := book.Stamp()
		if stamp == seen {
			continue
		}
		seen = stamp
		list, err := book.List()
		if err == nil {
			err = bus.Allow(list)
		}
		if err != nil {
			log.Error("the credentials are not taken, those before stay", slog.Any("error", err))
			continue
		}
		log.Info("credentials are taken", slog.Int("credentials", len(list)))
	}
}

// agentCredential returns an agent's name and the file of what it shows to
// NATS: the one the configuration names, else the one in the folder of
// credentials that has its name, else the one for all agents of this machine,
// else none. A credential of one agent gives it the name.
func agentCredential(n *config.NATS, id string, at net.Addr) (name, file string, err error) {
	named := id
	if id == "" {
		id = agentName(at)
	}
	file, err = findCredential(n, id, localAgents)
	if file == "" || err != nil {
		return id, file, err
	}
	holder, err := credential.Holds(file)
	switch {
	case err != nil:
		return id, file, err
	case !holder.Role.Single() || holder.Name == id:
		return id, file, nil
	case named != "":
		return id, file, fmt.Errorf("credential %s is of agent %s: it cannot report as %s", file, holder.Name, named)
	}
	return holder.Name, file, nil
}

// operatorCredential returns the file of what an operator's command shows to
// NATS, empty for none.
func operatorCredential(n *config.NATS) (string, error) {
	file, err := findCredential(n, localOperator)
	if file == "" || err != nil {
		return file, err
	}
	_, err = credential.Holds(file)
	return file, err
}

// findCredential returns the file the configuration names, else the first of
// names that is in the folder of credentials, else none. Where the
// configuration names another proof there is none.
func findCredential(n *config.NATS, names ...string) (string, error) {
	if n.CredentialFile != "" || n.TokenEnv != "" || n.CredsFile != "" {
		return n.CredentialFile, nil
	}
	for _, name := range names {
		file := filepath.Join(n.Credentials, name+".nk")
		switch _, err := os.Stat(file); {
		case err == nil:
			return file, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("look for a credential: %w", err)
		}
	}
	return "", nil
}

// controllerToken returns the token that orders must show: the variable's,
// else the file's, which is made when it is not there.
func controllerToken(c *config.Controller, log *slog.Logger) (string, error) {
	if token := os.Getenv(c.TokenEnv); token != "" {
		return token, nil
	}
	token, err := readToken(c.TokenFile)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if token, err = makeToken(c.TokenFile); err != nil {
		return "", err
	}
	log.Info("made a token for orders over http", slog.String("file", c.TokenFile))
	return token, nil
}

// makeToken writes a new token where there is none.
func makeToken(path string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	token := rand.Text()
	_, err = fmt.Fprintln(f, token)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("make token: %w", err), os.Remove(path))
	}
	return token, nil
}

// maxToken bounds a token's file.
const maxToken = 4096

// readToken reads a token. A file that others may read is an error.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("read token %s: others may read it (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || slices.ContainsFunc([]rune(token), func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Errorf("read token %s: want one word of printable ASCII", path)
	}
	return token, nil
}
