package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of that many bytes on a new folder.
func smallDisk(t *testing.T, folder, size string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=700,size="+size); err != nil {
		t.Skipf("this user may not mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", folder, err)
		}
	})
}

// fillDisk takes all that is left of a disk.
func fillDisk(t *testing.T, folder string) (free func()) {
	t.Helper()
	name := filepath.Join(folder, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if err := errors.Join(f.Close()); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDiskFull fills the disk of controller and NATS under load: the controller
// ends and says why, no call fails, what the log did not take waits at the
// agent, and once there is room and the controller is started again every
// attempt is counted and the log verifies.
func TestDiskFull(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a disk to fill")
	}
	t.Parallel()
	dir, provider := t.TempDir(), newStation(t)
	disk := filepath.Join(dir, "weir-data")
	smallDisk(t, disk, "96m")
	f := newSolo(t, dir, provider.URL)
	calls := f.calls(30)
	time.Sleep(2 * time.Second)
	free := fillDisk(t, disk)
	if got := f.controller.end(); got.code != exitFailed || !strings.Contains(got.stderr, "no space left") && !strings.Contains(got.stderr, "make room") {
		t.Errorf("the controller ended with code %d and said %s", got.code, got.stderr)
	}
	before := calls.done.Load()
	time.Sleep(3 * time.Second)
	if calls.done.Load() == before {
		t.Error("no call was answered while the disk was full")
	}
	again := start(t, dir, "controller")
	if got := again.end(); got.code == exitOK || strings.Contains(got.stderr, "panic") {
		t.Errorf("a controller on a full disk ended with code %d and said %s", got.code, got.stderr)
	}
	free()
	f.lead()
	calls.end(t)
	f.counted(provider.served.Load())
	if most := provider.most.Load(); most > stationTakes {
		t.Errorf("%d calls at once at the provider, it takes %d", most, stationTakes)
	}
	f.process.stop()
	f.controller.stop()
	if v, got := verifyJSON(t, "--store", disk, "--fleet", "test"); got.code != exitOK || !v.Verified {
		t.Errorf("log verify: %s%s", got.stdout, got.stderr)
	}
}
