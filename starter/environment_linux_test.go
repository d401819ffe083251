package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/temporaltest"
)

// Commands of agents run as the worker's user: a process of that user finds no key in
// the environment of any part of the stack, as the parts that have one hide it and
// the others get none.
func TestKeysCannotBeReadByTheSameUser(t *testing.T) {
	u := newUser(t)
	as := ordinary(t, u)
	secrets := []string{"secret-of-openai", "secret-of-tavily", "secret-of-mistral", "secret-of-a-cloud"}
	u.env = []string{"OPENAI_API_KEY=" + secrets[0], "OPENAI_BASE_URL=http://127.0.0.1:1/v1", "TAVILY_API_KEY=" + secrets[1], "MISTRAL_KEY=" + secrets[2], "CLOUD_SECRET_KEY=" + secrets[3]}
	require.NoError(t, os.WriteFile(filepath.Join(u.home, "models.yaml"), []byte("providers:\n  m: {baseUrl: 'http://127.0.0.1:1/v1', apiKeyEnv: MISTRAL_KEY}\n"), 0o644))
	environment := func(pid int) (string, error) {
		read := exec.Command("cat", fmt.Sprintf("/proc/%d/environ", pid))
		read.Dir, read.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
		out, err := read.Output()
		return string(out), err
	}

	open := exec.Command("sleep", "300")
	open.Dir, open.Env, open.SysProcAttr = "/", u.env, &syscall.SysProcAttr{Credential: as}
	require.NoError(t, open.Start())
	defer func() { _ = open.Process.Kill(); _ = open.Wait() }()
	found, err := environment(open.Process.Pid)
	require.NoError(t, err, "what does not hide it can be read, else this test shows nothing")
	require.Contains(t, found, secrets[0])

	cmd, info, _ := u.dev("--workers", "1")
	hidden := map[string]int{"dev": cmd.Process.Pid, "worker": info.PIDs.Workers[0], "web": info.PIDs.Web}
	for name, pid := range hidden {
		found, err := environment(pid)
		assert.Error(t, err, name)
		assert.Empty(t, found, name)
	}
	for name, pid := range map[string]int{"web": info.PIDs.Web, "temporal": info.PIDs.Temporal} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if os.Geteuid() != 0 && name == "web" {
			continue // hidden from this test too
		}
		require.NoError(t, err, name)
		for _, secret := range secrets {
			assert.NotContains(t, string(raw), secret, name)
		}
	}
}

// ordinary makes a user's programs run as one who is not root, and returns whom; nil
// is the one who runs this test.
func ordinary(t *testing.T, u *user) *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "spool-nobody-") //nolint:usetesting // nobody may not enter the folder above that of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	u.home, u.work = filepath.Join(dir, "home"), filepath.Join(dir, "work")
	for _, made := range []string{u.home, u.work} {
		require.NoError(t, os.Mkdir(made, 0o755))
		require.NoError(t, os.Chown(made, nobody, nobody))
	}
	u.bin = filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(u.bin, 0o755))
	for _, name := range []string{"starter", "worker", "temporal"} {
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(temporaltest.Starter()), name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(u.bin, name), raw, 0o755))
	}
	u.as = &syscall.Credential{Uid: nobody, Gid: nobody}
	return u.as
}
