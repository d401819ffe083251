package pgtest

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// places are where distributions put the server's programs.
var places = []string{
	"/usr/lib/postgresql/*/bin", "/usr/lib/postgresql*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin", "/Library/PostgreSQL/*/bin",
}

// binaries finds the folder with the server's programs: on the PATH, else the
// newest version in the usual places.
func binaries() (string, error) {
	if path, err := osexec.LookPath("postgres"); err == nil {
		if dir := filepath.Dir(path); complete(dir) {
			return dir, nil
		}
	}
	var found []string
	for _, pattern := range places {
		dirs, _ := filepath.Glob(pattern) // the patterns are well-formed
		found = append(found, slices.DeleteFunc(dirs, func(dir string) bool { return !complete(dir) })...)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no PostgreSQL server is installed here: run `make deps` as root, or set %s to the URL of one", Env)
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// version is the first number in a path.
func version(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[0])
	return n
}

// user says as whom to run the server, which refuses to run as root.
func user() (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody: run the tests as another user")
}

// folder makes a folder that belongs to the server's user and that it can reach.
func folder(as *syscall.SysProcAttr) (string, error) {
	base := ""
	if as != nil {
		base = "/tmp" // TMPDIR may be for root only
	}
	dir, err := os.MkdirTemp(base, "spool-pg-")
	if err != nil {
		return "", err
	}
	if as != nil {
		err = os.Chown(dir, int(as.Credential.Uid), int(as.Credential.Gid))
	}
	return dir, err
}
