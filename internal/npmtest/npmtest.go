// Package npmtest installs packages of the npm registry for tests, as a lock file
// pins them.
package npmtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var installing sync.Mutex

// Install returns a folder with the node_modules of a folder's package.json and
// package-lock.json. They are installed once per machine and lock file. For lack of
// node or npm the test fails.
func Install(t testing.TB, files fs.FS) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	dir, err := install(files)
	if err != nil {
		t.Fatalf("packages of the npm registry are not there: %v\n(`make deps` as root installs node and npm)", err)
	}
	return dir
}

func install(files fs.FS) (string, error) {
	lock, err := fs.ReadFile(files, "package-lock.json")
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
		b, err := fs.ReadFile(files, name)
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
