package mcp

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spool-agents/spool/agent"
)

// trustName is the file of the home directory that remembers which project
// files a person agreed to.
const trustName = "mcp-trust.json"

// Agreement is what a person agreed to: the content of a file, by its hash. A
// change of the file needs a new one.
type Agreement struct {
	Hash string    `json:"sha256"`
	At   time.Time `json:"at"`
}

func trustPath(home string) string { return filepath.Join(home, trustName) }

func readTrust(home string) (map[string]Agreement, error) {
	raw, err := os.ReadFile(trustPath(home))
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Agreement{}, nil
	}
	agreed := map[string]Agreement{}
	if err == nil {
		err = json.Unmarshal(raw, &agreed)
	}
	if err != nil {
		return map[string]Agreement{}, agent.Wrap(err, agent.CodeInvalid, "%s cannot be read: mend it, or remove it and agree again", trustPath(home))
	}
	return agreed, nil
}

// Agree records that a person agreed to the content of a project's file.
func Agree(home string, f File, now time.Time) error {
	agreed, err := readTrust(home)
	if err != nil {
		return err
	}
	agreed[realPath(f.Path)] = Agreement{Hash: f.Hash, At: now.UTC().Truncate(time.Second)}
	raw, err := json.MarshalIndent(agreed, "", "  ")
	if err == nil {
		err = os.MkdirAll(home, 0o700)
	}
	if err != nil {
		return agent.Wrap(err, agent.CodeInternal, "remember the agreement in %s", home)
	}
	// Renamed into place: a worker may read at any moment.
	t, err := os.CreateTemp(home, trustName+"-*")
	if err != nil {
		return agent.Wrap(err, agent.CodeInternal, "remember the agreement in %s", home)
	}
	_, err = t.Write(append(raw, '\n'))
	err = errors.Join(err, t.Sync(), t.Close())
	if err == nil {
		err = os.Rename(t.Name(), trustPath(home))
	}
	if err != nil {
		_ = os.Remove(t.Name())
		return agent.Wrap(err, agent.CodeInternal, "remember the agreement in %s", home)
	}
	return nil
}

// Agreed reports whether a file may start its servers.
func Agreed(home string, f File) bool {
	if !f.Project || f.Hash == "" {
		return true
	}
	agreed, err := readTrust(home)
	return err == nil && agreed[realPath(f.Path)].Hash == f.Hash
}

// realPath names a file in one way, whatever links lead to it.
func realPath(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}
