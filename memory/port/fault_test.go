package port_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/port"
)

func jsonItems(path string) *port.PersistedMemory[item] {
	return port.NewPersistedMemory[item](port.NewJSONFile(path, port.JSONFileOptions{}))
}

func bigItem(i int) item {
	return item{ID: fmt.Sprintf("big-%04d", i), Text: fmt.Sprintf("%050000d", i)}
}

// childFull appends until that fails, says how, waits for its parent to make
// room and repeats the item.
func childFull(p *port.PersistedMemory[item]) error {
	release, err := processtest.LimitFiles(1_000_000)
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
	return errors.Join(release(), p.Append(ctx, "k", bigItem(n)), p.Append(ctx, "k", bigItem(n)), p.Close())
}

// childReadOnly writes as a user who may not write there.
func childReadOnly(p *port.PersistedMemory[item]) error {
	if err := processtest.BecomeNobody(); err != nil {
		return err
	}
	err := p.Append(context.Background(), "k", item{ID: "new"})
	fmt.Println(agent.CodeOf(err), err)
	return nil
}

// TestFault_C12_DiskFullOfItems limits the size that a file may have. What stores do
// when the disk is full is tested with them.
func TestFault_C12_DiskFullOfItems(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.json")
	p := processtest.Start(t, "full", nil, path)
	line, _ := p.Next()
	count, rest, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(count)
	if err != nil || n < 2 || n >= 1000 || !strings.HasPrefix(rest, "unavailable ") || !strings.Contains(rest, dir) {
		t.Fatalf("got %q, want unavailable after some items", line)
	}
	if !strings.Contains(rest, "full") && !strings.Contains(rest, "space") {
		t.Errorf("%q does not say what to do", rest)
	}
	whole := func(n int) {
		t.Helper()
		got := memorytest.Must(jsonItems(path).Get(t.Context(), "k"))(t)
		require.Len(t, got, n)
		for i, it := range got {
			if it.Text != bigItem(i).Text {
				t.Fatalf("item %d is torn", i)
			}
		}
	}
	whole(n)
	memorytest.Must(p.Lines())(t) // after there was room
	whole(n + 1)
	if left, err := filepath.Glob(filepath.Join(dir, ".*tmp*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFault_C12_ReadOnlyItems: a folder, and a file, that may not be written.
func TestFault_C12_ReadOnlyItems(t *testing.T) {
	dir := t.TempDir()
	processtest.OpenToAll(t, dir)
	path := filepath.Join(dir, "m.json")
	require.NoError(t, jsonItems(path).Append(t.Context(), "k", item{ID: "old"}))
	before := memorytest.Must(os.ReadFile(path))(t)
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	for _, mode := range []os.FileMode{0o444, 0o666} {
		require.NoError(t, errors.Join(os.Chmod(path, mode), os.Chmod(dir, 0o555)))
		for _, name := range []string{"m.json", "new", "deeper/new"} {
			lines := memorytest.Must(processtest.Start(t, "readonly", nil, filepath.Join(dir, name)).Lines())(t)
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
}
