// Package images keeps images of messages in a folder, by their content, so that a
// reference means the same for ever.
package images

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// Most bounds an image that a worker sends to a model, in bytes: providers take 5 to
// 20 MB.
const Most = 10 << 20

// kinds are the images that models take, with the ending of their files.
var kinds = map[string]string{"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}

// Kind is the media type of a kept image, by its name.
func Kind(name string) string {
	for kind, ending := range kinds {
		if strings.HasSuffix(name, "."+ending) {
			return kind
		}
	}
	return ""
}

// Keep writes an image into a folder, if it is not there yet, and returns its name.
// Data that is no image is CodeInvalid. It is safe for concurrent use, also by
// several processes.
func Keep(dir string, data []byte) (string, error) {
	ending := kinds[http.DetectContentType(data)]
	switch {
	case len(data) > Most:
		return "", agent.Errorf(agent.CodeInvalid, "the image is too big: at most %d MB are sent to a model", Most>>20)
	case ending == "":
		return "", agent.Errorf(agent.CodeInvalid, "it is no PNG, JPEG, GIF or WebP")
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:]) + "." + ending
	if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
		return name, nil
	}
	return name, agent.Wrap(write(dir, name, data), agent.CodeUnavailable, "keep an image in %s", dir)
}

// write makes the file whole or not at all: a worker must not see a part of it.
func write(dir, name string, data []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(t.Name()) }()
	_, err = t.Write(data)
	if err == nil {
		err = t.Sync()
	}
	if cerr := t.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(t.Name(), filepath.Join(dir, name))
}
