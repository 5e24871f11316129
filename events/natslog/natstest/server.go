// Package natstest runs a NATS server inside a test, in a directory of the
// test's, to be stopped, damaged and started again. It takes no port unless
// Listen makes it.
package natstest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is a NATS server with JetStream. Connections made with Option find
// the one that runs now, so they outlive a restart.
type Server struct {
	dir    string
	change func(*server.Options)

	mu   sync.Mutex
	srv  *server.Server // nil while stopped
	port int            // it listened on, and listens on again
}

// Listen is a change for Start that makes the server listen on a free port of
// loopback.
func Listen(o *server.Options) { o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT }

// Start starts a server for a test, on an empty store. change, if not nil,
// adjusts its options. The server ends with the test.
func Start(tb testing.TB, change func(*server.Options)) *Server {
	tb.Helper()
	s := &Server{dir: tb.TempDir(), change: change}
	s.Restart(tb)
	tb.Cleanup(func() { s.Stop() })
	return s
}

// Cluster starts servers that listen and form a cluster, each on an empty
// store. They end with the test.
func Cluster(tb testing.TB, n int) []*Server {
	tb.Helper()
	var routes []*url.URL
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		if err := l.Close(); err != nil {
			tb.Fatal(err)
		}
	}
	var all []*Server
	for i := range n {
		all = append(all, Start(tb, func(o *server.Options) {
			Listen(o)
			port, _ := strconv.Atoi(routes[i].Port()) // it is one
			o.ServerName = fmt.Sprint("natstest", i)
			o.Cluster = server.ClusterOpts{Name: "natstest", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}))
	}
	return all
}

// Restart starts the server on the store it had.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Stop()
	o := &server.Options{
		ServerName: "natstest", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: s.dir, SyncInterval: time.Second,
	}
	if s.change != nil {
		s.change(o)
	}
	if !o.DontListen && s.port != 0 {
		o.Port = s.port
	}
	srv, err := server.NewServer(o)
	if err != nil {
		tb.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		tb.Fatal("NATS server does not get ready")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.srv = srv
	if addr, ok := srv.Addr().(*net.TCPAddr); ok {
		s.port = addr.Port
	}
}

// URL returns where a server that listens is reached, also while it is stopped.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }

// Stop stops the server and waits until its files are closed.
func (s *Server) Stop() {
	s.mu.Lock()
	srv := s.srv
	s.srv = nil
	s.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// InProcessConn connects to the server that runs now.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return nil, errors.New("natstest: server is stopped")
	}
	return s.srv.InProcessConn()
}

// Option makes a client connect to this server.
func (s *Server) Option() nats.Option { return nats.InProcessServer(s) }

// Blocks lists the block files of a stream, oldest first. They may be changed
// while the server is stopped.
func (s *Server) Blocks(tb testing.TB, stream string) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(s.messages(stream), "*.blk"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("stream %s has no blocks in %s: %v", stream, s.dir, err)
	}
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		if a < b {
			return -1
		}
		return 1
	})
	return files
}

func (s *Server) messages(stream string) string {
	return filepath.Join(s.dir, "jetstream", "$G", "streams", stream, "msgs")
}

// Forget removes what a clean stop wrote about a stream beside its messages,
// as if the server had been killed.
func (s *Server) Forget(tb testing.TB, stream string) {
	tb.Helper()
	if err := os.Remove(filepath.Join(s.messages(stream), "index.db")); err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
}

// CutTail drops the last bytes of a file, as a loss of power does.
func CutTail(tb testing.TB, file string, bytes int64) {
	tb.Helper()
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, max(0, info.Size()-bytes))
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// FlipBit turns one bit of a file over.
func FlipBit(tb testing.TB, file string, offset int64) {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		data[offset] ^= 1
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Save copies the store, which must be stopped, and returns the copy's place.
func (s *Server) Save(tb testing.TB) string {
	tb.Helper()
	copied := filepath.Join(tb.TempDir(), "store")
	if err := os.CopyFS(copied, os.DirFS(s.dir)); err != nil {
		tb.Fatal(err)
	}
	return copied
}

// Restore puts a saved store in the place of the present one.
func (s *Server) Restore(tb testing.TB, saved string) {
	tb.Helper()
	err := os.RemoveAll(filepath.Join(s.dir, "jetstream"))
	if err == nil {
		err = os.CopyFS(s.dir, os.DirFS(saved))
	}
	if err != nil {
		tb.Fatal(err)
	}
}
