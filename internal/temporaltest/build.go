package temporaltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

var bins struct{ dir, worker, starter, temporal string }

// BinEnv names the absolute folder with worker and starter as `make build` has built
// them. Without it each package builds its own.
const BinEnv = "SPOOL_TEST_BIN"

// Main has the programs built, runs the package's tests, and removes what it
// made. Call it from TestMain, with what else is to be done at the end.
func Main(m *testing.M, after ...func()) {
	code, err := runMain(m)
	for _, end := range after {
		end()
	}
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
	if bins.temporal, err = findTemporal(); err != nil {
		return 1, err
	}
	if err := os.Symlink(bins.temporal, filepath.Join(dir, "temporal")); err != nil {
		return 1, err
	}
	built := os.Getenv(BinEnv)
	if built == "" {
		built = dir
		cmd := exec.Command("go", "build", "-o", dir+"/", "./starter")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build starter: %w\n%s", err, out)
		}
		if err := os.Link(filepath.Join(dir, "starter"), filepath.Join(dir, "worker")); err != nil {
			return 1, err
		}
	}
	bins.worker, bins.starter = filepath.Join(built, "worker"), filepath.Join(built, "starter")
	defer stopShared()
	return m.Run(), nil
}

func findTemporal() (string, error) {
	path := filepath.Join(Root(), "bin", "temporal")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("temporal")
	if err != nil {
		return "", fmt.Errorf("the program temporal is neither in %s nor on the PATH: run `make build` first", filepath.Join(Root(), "bin"))
	}
	return filepath.Abs(path)
}

// Programs makes those of a folder the ones that are run, for what is no test.
func Programs(dir string) (err error) {
	bins.worker, bins.starter = filepath.Join(dir, "worker"), filepath.Join(dir, "starter")
	if _, err = os.Stat(bins.worker); err != nil {
		return fmt.Errorf("%w (make build builds it)", err)
	}
	bins.temporal, err = findTemporal()
	return err
}

// Temporal is the path of Temporal's own program.
func Temporal() string { return bins.temporal }

// Root is the repository's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Starter is the path of the starter built for these tests.
func Starter() string { return bins.starter }
