package sessionfile

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/atomicfile"
)

// imagesDir is the folder of the images that the files of sessions refer to.
const imagesDir = "images"

// Images lists the names of the kept images that a session refers to, each once.
func (s Session) Images() []string {
	names := agent.ImagesIn(string(s.Store))
	for _, m := range s.Messages {
		if body, err := json.Marshal(m); err == nil {
			names = append(names, agent.ImagesIn(string(body))...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ImagePath is where the file of an image is.
func (f Folder) ImagePath(name string) (string, error) {
	if !agent.CheckImageName(name) {
		return "", agent.Errorf(agent.CodeInvalid, "%.80q is not the name of an image", name)
	}
	return filepath.Join(f.Dir, imagesDir, name), nil
}

// SaveImage writes an image into the folder and returns its path. One that is
// there is written anew only if it was changed.
func (f Folder) SaveImage(name string, data []byte) (string, error) {
	path, err := f.ImagePath(name)
	if err != nil {
		return "", err
	}
	if _, found, err := f.Image(name); found && err == nil {
		return path, nil
	}
	if err = atomicfile.MakeDir(filepath.Dir(path)); err == nil {
		err = atomicfile.Write(path, data, nil)
	}
	return path, atomicfile.Explain(err, "image "+path)
}

// Image reads an image of the folder. One whose bytes are not those that its name
// tells is CodeInvalid.
func (f Folder) Image(name string) (data []byte, found bool, err error) {
	path, err := f.ImagePath(name)
	if err != nil {
		return nil, false, err
	}
	data, err = atomicfile.ReadRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, atomicfile.Explain(err, "image "+path)
	}
	if is, err := agent.ImageName(data); err != nil || is != name {
		return nil, true, agent.Errorf(agent.CodeInvalid, "image %s was changed or damaged: its name tells other bytes; restore the file", path)
	}
	return data, true, nil
}

// ImageNames lists the images of the folder.
func (f Folder) ImageNames() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(f.Dir, imagesDir))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var names []string
	for _, e := range entries {
		if agent.CheckImageName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, explain(err, f.Dir)
}

// RemoveImage removes an image of the folder, if it is there, and returns its path.
func (f Folder) RemoveImage(name string) (removed string, err error) {
	path, err := f.ImagePath(name)
	if err != nil {
		return "", err
	}
	switch err := os.Remove(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", atomicfile.Explain(err, "image "+path)
	}
	return path, nil
}
