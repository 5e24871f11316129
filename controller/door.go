package controller

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"strconv"
	"sync"
	"time"
)

// door lets connections of other processes in to the server in this one.
//
// The server checks where a client publishes, but not where it wants the answer
// sent, and it sends answers with rights of its own: an agent that asks for its
// own last entry and wants the answer at the control subject would have written
// there. So whoever comes from outside passes through here, and one that wants an
// answer anywhere but in an inbox is cut off. Nothing listens on an inbox but who
// made it.
//
// What a client sends is taken apart and written anew, so that the server never
// reads it another way. Each connection has two goroutines; they end with it.
type door struct {
	listener net.Listener
	// inside makes a connection to the server.
	inside func() (net.Conn, error)
	tls    *tls.Config // nil for plain text
	log    *slog.Logger

	wait  sync.WaitGroup
	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
}

// The bounds of what a client may send before and beside its messages.
const (
	doorLine = 4096 // what nats-server takes as a line at most
	// doorBuffer is what is read at once, either way; a line fits.
	doorBuffer = 8 << 10
	// doorWrite is how long a client may take to read what it is sent: longer
	// than the server itself waits.
	doorWrite = 10 * time.Second
)

// inbox begins every subject on which answers may be wanted.
const inbox = "_INBOX"

// errNoInbox is why a client is cut off that wants an answer elsewhere.
var errNoInbox = errors.New("a message whose answer is wanted elsewhere than in an inbox")

// openDoor listens on an address.
func openDoor(address string, shown *tls.Config, inside func() (net.Conn, error), log *slog.Logger) (*door, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("nats cannot listen on %s: %w", address, err)
	}
	d := &door{listener: l, inside: inside, tls: shown, log: log, open: map[net.Conn]bool{}}
	d.wait.Go(d.accept)
	return d, nil
}

// accept lets in who comes until the door is shut.
func (d *door) accept() {
	for {
		out, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			d.log.Warn("nats takes no connection, trying again", slog.Any("error", err))
			time.Sleep(100 * time.Millisecond) // out of files, as a rule
			continue
		}
		d.wait.Go(func() { d.serve(out) })
	}
}

// keep notes a connection, so that shut ends it; it reports false when the door
// is shut.
func (d *door) keep(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.open[c] = true
	}
	return !d.ended
}

func (d *door) drop(c net.Conn) {
	d.mu.Lock()
	delete(d.open, c)
	d.mu.Unlock()
	_ = c.Close() // the other side may have done so
}

// close ends all connections and waits until they are over.
func (d *door) close() {
	_ = d.listener.Close() // nothing else does
	d.mu.Lock()
	d.ended = true
	for c := range d.open {
		_ = c.Close() // it may have ended
	}
	d.mu.Unlock()
	d.wait.Wait()
}

// serve joins a client with the server until either is gone.
func (d *door) serve(out net.Conn) {
	defer d.drop(out)
	in, err := d.inside()
	if err != nil {
		return // the server is ending
	}
	defer d.drop(in)
	if !d.keep(out) || !d.keep(in) {
		return
	}
	client, told := out, io.Reader(in)
	if d.tls != nil {
		server := bufio.NewReader(in)
		if client, err = d.shake(out, server); err != nil {
			d.log.Debug("nats client without TLS", slog.Any("error", err))
			return
		}
		told = server
	}
	d.wait.Go(func() {
		_, _ = io.CopyBuffer(&patient{c: client}, struct{ io.Reader }{told}, make([]byte, doorBuffer)) // either end may go at any time
		_, _ = out.Close(), in.Close()
	})
	err = pass(in, client)
	if errors.Is(err, errNoInbox) {
		d.log.Warn("nats client cut off", slog.String("from", out.RemoteAddr().String()), slog.Any("error", err))
	}
}

// patient is a client that is given so long to take each part, and up to a second
// more: a deadline set for every message was half of what the door costs.
type patient struct {
	c   net.Conn
	set time.Time // when the deadline was
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	if now := time.Now(); now.Sub(p.set) > time.Second {
		p.set = now
		if err := p.c.SetWriteDeadline(now.Add(doorWrite + time.Second)); err != nil {
			return 0, err
		}
	}
	return p.c.Write(b)
}

// shake tells the client what the server says of itself, and that it wants TLS,
// and does the handshake.
func (d *door) shake(out net.Conn, server *bufio.Reader) (net.Conn, error) {
	info, err := server.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	info = bytes.Replace(info, []byte("{"), []byte(`{"tls_required":true,`), 1)
	if _, err := out.Write(info); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), natsHandshake)
	defer cancel()
	client := tls.Server(out, d.tls)
	return client, client.HandshakeContext(ctx)
}

// pass hands on what a client sends until it ends or breaks the rule.
func pass(to io.Writer, from io.Reader) error {
	r, w := bufio.NewReaderSize(from, doorBuffer), bufio.NewWriterSize(to, doorBuffer)
	for {
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if err := passOne(w, r); err != nil {
			return err
		}
	}
}

// passOne hands one line on, with the message that belongs to it.
func passOne(w *bufio.Writer, r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
	if len(line) > doorLine || bytes.ContainsAny(line, "\r\x00") {
		return fmt.Errorf("a line of %d bytes that is none of the protocol", len(line))
	}
	op, rest := line, []byte(nil)
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		op, rest = line[:i], line[i+1:]
	}
	size := -1
	switch op = bytes.ToUpper(op); string(op) {
	case "PUB":
		size, err = announced(rest, 1)
	case "HPUB":
		size, err = announced(rest, 2)
	case "CONNECT", "PING", "PONG", "SUB", "UNSUB":
	default:
		err = fmt.Errorf("the word %q, which no client says", op)
	}
	if err != nil {
		return err
	}
	_, _ = w.Write(op) // the last write tells of all
	if rest != nil {
		_ = w.WriteByte(' ')
		_, _ = w.Write(rest)
	}
	if _, err = w.WriteString("\r\n"); err == nil && size >= 0 {
		_, err = io.CopyN(w, r, int64(size)+2)
	}
	return err
}

// announced takes the words behind PUB or HPUB, of which the last ones are sizes,
// and returns how long the message is.
func announced(rest []byte, sizes int) (int, error) {
	words := bytes.FieldsFunc(rest, func(c rune) bool { return c == ' ' || c == '\t' })
	switch len(words) {
	case 1 + sizes:
	case 2 + sizes:
		if !bytes.HasPrefix(words[1], []byte(inbox)) {
			return 0, errNoInbox
		}
	default:
		return 0, fmt.Errorf("a message with %d words before it", len(words))
	}
	size, err := strconv.ParseUint(string(words[len(words)-1]), 10, 31)
	if err != nil || size > math.MaxInt32-2 {
		return 0, errors.New("a message without a size")
	}
	return int(size), nil
}
