package activities

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/webuser"
)

// place is the folder in which a thread's tools work. A user of the web server has one
// beneath this worker's workspace, wherever the workspace of the web server is.
func (a *Activities) place(t agent.Thread) (string, error) {
	sub, web := webuser.InFolder(t.UserID, t.Workdir)
	if !web {
		return a.workdir(t.Workdir), nil
	}
	own := webuser.Folder(t.UserID)
	home, err := userRoot(a.Workspace, own)
	if err != nil {
		return "", agent.Wrap(err, agent.CodeUnavailable, "user %s of the web server has no folder in %s", t.UserID, a.Workspace)
	}
	defer func() { _ = home.Close() }()
	if home.MkdirAll(sub, 0o700) != nil { // a file, or a link that leads out
		sub = "."
	}
	return filepath.Join(a.Workspace, own, sub), nil
}

// userRoot opens the folder of a user, and makes it if need be. One that is a link was
// made by others.
func userRoot(workspace, own string) (*os.Root, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	for _, dir := range []string{path.Dir(own), own} {
		if info, err := root.Lstat(dir); err != nil || !info.IsDir() {
			return nil, errors.Join(err, errors.New(dir+" has to be a folder, and no link"))
		}
	}
	return root.OpenRoot(own)
}
