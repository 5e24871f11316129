package store_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"weir/controller/store"
)

// failingStore opens a store on a disk that soon refuses every write, or with
// "tables" only new tables, as one that is full. It returns only if that went
// unnoticed.
func failingStore(what string) {
	var broken atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && (what != "tables" || strings.HasSuffix(op.Path, ".sst")) {
			return errorfs.ErrInjected
		}
		return nil
	}))
	s, err := store.Open("state", store.Options{FS: fs, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(3)
	}
	broken.Store(true)
	if what == "tables" { // a few megabytes until one is due
		for seq := range uint64(1000) {
			_ = s.Commit(&store.Change{Position: store.Position{Seq: seq}, Parts: []store.Part{{Key: "c", Value: make([]byte, 64<<10)}}}, false)
		}
		time.Sleep(time.Minute)
	}
	for seq := range uint64(1000) {
		err := s.Commit(&store.Change{Position: store.Position{Seq: seq}}, true)
		fmt.Println("committed after the disk failed:", err)
	}
}
