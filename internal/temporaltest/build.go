package temporaltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

var bins struct{ dir, worker, starter, devserver string }

// Main builds the programs once, runs the package's tests, and removes what it
// built. Call it from TestMain.
func Main(m *testing.M) {
	code, err := runMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runMain(m *testing.M) (int, error) {
	root := Root()
	dir, err := os.MkdirTemp("", "spool-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	bins.dir = dir
	bins.worker, bins.starter = filepath.Join(dir, "worker"), filepath.Join(dir, "starter")
	bins.devserver = filepath.Join(root, "bin", "devserver")
	if _, err := os.Stat(bins.devserver); err != nil {
		return 1, fmt.Errorf("%s is missing: run `make build` first (it builds the embedded Temporal server once)", bins.devserver)
	}
	if err := os.Symlink(bins.devserver, filepath.Join(dir, "devserver")); err != nil {
		return 1, err
	}
	for _, p := range []string{"worker", "starter"} {
		if _, err := os.Stat(filepath.Join(root, p)); err != nil {
			continue
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, p), "./"+p)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build %s: %w\n%s", p, err, out)
		}
	}
	defer stopShared()
	return m.Run(), nil
}

// Root is the repository's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Starter is the path of the starter built for these tests.
func Starter() string { return bins.starter }
