package rawstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// faultEnv makes the test binary act as another process: its value is "full" or
// "readonly", the first argument a location.
const faultEnv = "SPOOL_RAWSTORE_TEST_CHILD"

func faultChild() {
	children := map[string]func() error{"full": childFull, "readonly": childReadOnly}
	child := children[os.Getenv(faultEnv)]
	if child == nil {
		return
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func bigItem(i int) memorytest.PortItem {
	return memorytest.PortItem{ID: fmt.Sprintf("big-%04d", i), Text: fmt.Sprintf("%050000d", i)}
}

// childFull appends until that fails, says how, waits for its parent to make
// room and repeats the item. With a limit it limits the size of its files.
func childFull() error {
	limit, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err != nil {
		return err
	}
	release, err := memorytest.LimitFiles(limit)
	if err != nil {
		return err
	}
	p, err := openPort(os.Args[1])
	if err != nil {
		return err
	}
	ctx, n := context.Background(), 0
	for ; n < 1000; n++ {
		if err = p.Append(ctx, "k", bigItem(n)); err != nil {
			break
		}
	}
	fmt.Println(n, agent.CodeOf(err), err)
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	if err := errors.Join(p.Append(ctx, "k", bigItem(n)), p.Append(ctx, "k", bigItem(n))); err != nil {
		return err
	}
	return p.Close()
}

// childReadOnly reads and writes as a user who may not write there.
func childReadOnly() error {
	if err := memorytest.BecomeNobody(); err != nil {
		return err
	}
	p, err := openPort(os.Args[1])
	if err != nil {
		return err
	}
	err = p.Append(context.Background(), "k", memorytest.PortItem{ID: "new"})
	fmt.Println(agent.CodeOf(err), err)
	return nil
}

func startFault(t *testing.T, mode string, args ...string) *memorytest.Process {
	t.Helper()
	return memorytest.StartProcess(t, []string{faultEnv + "=" + mode}, args...)
}

// TestFault_C12_DiskFullOfItems fills a small file system, or, where none can be
// mounted, the size that a file may have.
func TestFault_C12_DiskFullOfItems(t *testing.T) {
	for _, b := range backends {
		if !b.durable {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			dir, limit, ballast := t.TempDir(), "1000000", ""
			if err := syscall.Mount("spool", dir, "tmpfs", 0, "size=3m"); err == nil {
				t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
				limit, ballast = "0", filepath.Join(dir, "ballast")
				if err := os.WriteFile(ballast, make([]byte, 1_500_000), 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				t.Logf("no tmpfs (%v): limiting the size of files instead", err)
			}
			location := b.kind + filepath.Join(dir, b.file)
			p := startFault(t, "full", location, limit)
			line, _ := p.Next()
			count, rest, _ := strings.Cut(line, " ")
			n, err := strconv.Atoi(count)
			if err != nil || n < 2 || n >= 1000 || !strings.HasPrefix(rest, "unavailable ") || !strings.Contains(rest, dir) {
				t.Fatalf("got %q, want unavailable after some items", line)
			}
			if !strings.Contains(rest, "full") && !strings.Contains(rest, "space") {
				t.Errorf("%q does not say what to do", rest)
			}
			if ballast != "" {
				if err := os.Remove(ballast); err != nil {
					t.Fatal(err)
				}
			}
			whole := func(n int) {
				t.Helper()
				p := mustPort(t, location)
				got, err := p.Get(t.Context(), "k")
				if err != nil || len(got) != n {
					t.Fatalf("%d items, %v; want %d", len(got), err, n)
				}
				for i, it := range got {
					if it.Text != bigItem(i).Text {
						t.Fatalf("item %d is torn", i)
					}
				}
			}
			whole(n)
			if _, err := p.Lines(); err != nil {
				t.Fatalf("after there was room: %v", err)
			}
			whole(n + 1)
			if left, err := filepath.Glob(filepath.Join(dir, ".*tmp*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func mustPort(t *testing.T, location string) memory.AtomicPort[memorytest.PortItem] {
	t.Helper()
	p, err := openPort(location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestFault_C12_ReadOnlyItems: a folder, and a file, that may not be written.
func TestFault_C12_ReadOnlyItems(t *testing.T) {
	for _, b := range backends {
		if !b.durable {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			dir := t.TempDir()
			memorytest.OpenToAll(t, dir)
			path := filepath.Join(dir, b.file)
			p := mustPort(t, b.kind+path)
			if err := errors.Join(p.Append(t.Context(), "k", memorytest.PortItem{ID: "old"}), p.Close()); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			chmod(t, dir, 0o555)
			t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
			for _, mode := range []os.FileMode{0o444, 0o666} {
				chmod(t, path, mode)
				for _, name := range []string{b.file, "new", "deeper/new"} {
					lines, err := startFault(t, "readonly", b.kind+filepath.Join(dir, name)).Lines()
					if err != nil {
						t.Fatal(err)
					}
					line := strings.Join(lines, "\n")
					for _, w := range []string{"unavailable ", dir, "writable", "nothing was changed"} {
						if !strings.Contains(line, w) {
							t.Errorf("mode %v, %s: %q does not say %q", mode, name, line, w)
						}
					}
				}
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
