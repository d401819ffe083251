package compose

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
)

// writeEnv makes a folder with the .env that `make up` writes.
func writeEnv(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env.example"), []byte(read(t, ".env.example")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := makeEnv(t, dir); err != nil || !strings.Contains(out, "wrote .env") {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// makeEnv runs the first step of `make up` in a folder.
func makeEnv(t *testing.T, dir string) (string, error) {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(root, ".ci/env"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// dotEnv reads a folder's .env as docker compose would.
func dotEnv(t *testing.T, dir string) map[string]string {
	t.Helper()
	env, err := dotenv.Read(filepath.Join(dir, ".env"))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func TestEnvIsRandomAndPrivate(t *testing.T) {
	dir := writeEnv(t)
	first, second := dotEnv(t, dir), dotEnv(t, writeEnv(t))
	seen := map[string]bool{}
	secrets := []string{"POSTGRES_PASSWORD", "SPOOL_DB_PASSWORD", "SPOOL_WEB_TOKEN"}
	for _, name := range secrets {
		for _, v := range []string{first[name], second[name]} {
			if seen[v] || !regexp.MustCompile(`^[0-9a-f]{48}$`).MatchString(v) {
				t.Errorf("%s is %q", name, v)
			}
			seen[v] = true
		}
	}
	for name, v := range first {
		chosen := map[string]string{"SPOOL_DEMO_MODEL": "true"}
		if !slices.Contains(secrets, name) && v != chosen[name] {
			t.Errorf("%s is %q", name, v)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, ".env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want a file of its owner's", info.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v: something is left over", files, err)
	}
}

// TestEnvIsNeverOverwritten: not a person's own, not one that leads nowhere, and not
// one that another `make up` writes at the same time.
func TestEnvIsNeverOverwritten(t *testing.T) {
	dir := writeEnv(t)
	file := filepath.Join(dir, ".env")
	if err := os.WriteFile(file, []byte("POSTGRES_PASSWORD=mine\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if out, err := makeEnv(t, dir); err != nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "POSTGRES_PASSWORD=mine\n" {
		t.Errorf("%q, %v", data, err)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", file); err != nil {
		t.Fatal(err)
	}
	if _, err := makeEnv(t, dir); err != nil {
		t.Error(err)
	}
	if to, err := os.Readlink(file); err != nil || to != "elsewhere" {
		t.Errorf("%s, %v", to, err)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if out, err := makeEnv(t, dir); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 || len(dotEnv(t, dir)) != len(dotEnv(t, writeEnv(t))) {
		t.Errorf("%v, %v", files, err)
	}
}

// Every variable that the file reads is in the .env that `make up` writes, and the
// reverse; a password that is missing is an error that says what to do.
func TestEveryVariableIsInEnv(t *testing.T) {
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`[^$]\$\{([A-Z_]+)`).FindAllStringSubmatch(read(t, "docker-compose.yml"), -1) {
		used[m[1]] = true
	}
	env := dotEnv(t, writeEnv(t))
	written := map[string]bool{}
	for name := range env {
		written[name] = true
	}
	if !maps.Equal(used, written) {
		t.Errorf("docker-compose.yml reads %v, .env has %v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(written)))
	}
	for _, name := range []string{"POSTGRES_PASSWORD", "SPOOL_DB_PASSWORD", "SPOOL_WEB_TOKEN"} {
		without := maps.Clone(env)
		delete(without, name)
		if _, err := parse(t, without); err == nil || !strings.Contains(err.Error(), "make up") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
