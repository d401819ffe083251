// Package mcptest gives tests MCP servers: Spool's own testserver, and real ones
// of the npm registry, whose versions npm/package-lock.json pins.
package mcptest

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
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

var installed = sync.OnceValues(install)

// NPM is a program of the npm packages, such as mcp-server-filesystem. They are
// installed once per machine and lock file.
func NPM(t testing.TB, program string) string {
	t.Helper()
	dir, err := installed()
	if err != nil {
		t.Fatalf("the MCP servers of the npm registry are not there: %v\n(`make deps` as root installs node and npm)", err)
	}
	return filepath.Join(dir, "node_modules", ".bin", program)
}

func install() (string, error) {
	lock, err := npm.ReadFile("npm/package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "spool-test", "npm-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	// Another test binary may do the same at this moment: who is first renames.
	work, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := npm.ReadFile("npm/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(work, name), b, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if err := os.Rename(work, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}
