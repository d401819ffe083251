// Package mcptest gives tests MCP servers: Spool's own testserver, and real ones
// of the npm registry, whose versions npm/package-lock.json pins.
package mcptest

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/spool-agents/spool/internal/npmtest"
)

//go:embed npm/package.json npm/package-lock.json
var npm embed.FS

var built = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir, err := os.MkdirTemp("", "spool-mcp-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "testserver")
	cmd := exec.Command("go", "build", "-o", path, "./testserver")
	cmd.Dir = filepath.Dir(file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build testserver: %w\n%s", err, out)
	}
	return path, nil
})

// TestServer is the program of ./testserver.
func TestServer(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// CleanUp removes the program of TestServer, at the end of a test binary.
func CleanUp() {
	if path, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
}

// NPM is a program of the npm packages, such as mcp-server-filesystem.
func NPM(t testing.TB, program string) string {
	t.Helper()
	files, err := fs.Sub(npm, "npm")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(npmtest.Install(t, files), "node_modules", ".bin", program)
}
