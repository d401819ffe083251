// Package images keeps as files what tools return and models are not shown.
package images

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// endings are those of files that tools return, by media type.
var endings = map[string]string{
	"image/svg+xml": "svg", "image/bmp": "bmp", "image/tiff": "tiff", "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp",
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/ogg": "ogg", "audio/flac": "flac", "audio/mp4": "m4a", "audio/webm": "weba",
	"video/mp4": "mp4", "video/webm": "webm", "application/pdf": "pdf", "application/zip": "zip", "application/gzip": "gz", "application/json": "json",
	"text/plain": "txt", "text/csv": "csv", "text/markdown": "md",
}

// KeepFile writes what a tool returned and is no image for models into a folder, if it
// is not there yet, and returns its name, a digest of the content. What a person might
// run by opening it gets the ending bin. It is safe for concurrent use, also by several
// processes.
func KeepFile(dir, kind string, data []byte) (string, error) {
	plain, _, _ := strings.Cut(kind, ";")
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:]) + "." + cmp.Or(endings[strings.ToLower(strings.TrimSpace(plain))], "bin")
	if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
		return name, nil
	}
	return name, agent.Wrap(write(dir, name, data), agent.CodeUnavailable, "keep a file in %s", dir)
}

// write makes the file whole or not at all: nobody must see a part of it.
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
