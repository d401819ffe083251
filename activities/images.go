package activities

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/images"
)

// withImages puts the images in place that messages refer to, for the time of a
// call. One that cannot be had is told to the model in words: a turn must not
// fail because a file is gone.
func (a *Activities) withImages(messages []agent.Message, workdir string) []agent.Message {
	for i, m := range messages {
		if !slices.ContainsFunc(m.Content.Parts, refers) {
			continue
		}
		parts := slices.Clone(m.Content.Parts)
		for k, p := range parts {
			if !refers(p) {
				continue
			}
			data, err := a.image(p.ImageURL.URL, workdir)
			if err != nil {
				parts[k] = agent.Part{Type: "text", Text: fmt.Sprintf("[an image cannot be shown: %v]", err)}
				continue
			}
			parts[k].ImageURL = &agent.ImageURL{URL: data, Detail: p.ImageURL.Detail}
		}
		messages[i].Content.Parts = parts
	}
	return messages
}

func refers(p agent.Part) bool {
	return p.ImageURL != nil && (strings.HasPrefix(p.ImageURL.URL, agent.ImageScheme) || strings.HasPrefix(p.ImageURL.URL, agent.FileScheme))
}

// image reads an image as a data URL. os.Root keeps the path inside.
func (a *Activities) image(url, workdir string) (string, error) {
	dir, path := a.Images, strings.TrimPrefix(url, agent.ImageScheme)
	if file, ok := strings.CutPrefix(url, agent.FileScheme); ok {
		dir, path = workdir, strings.TrimPrefix(file, "//")
		if rel, err := filepath.Rel(dir, path); filepath.IsAbs(path) && err == nil {
			path = rel
		}
	}
	if dir == "" {
		return "", fmt.Errorf("this worker keeps no images")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("its folder is not on this worker's machine")
	}
	defer func() { _ = root.Close() }()
	// Not blocking, so that a named pipe does not hold the call.
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("%s is not there, or lies outside the workspace", agent.CleanText(path))
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > images.Most {
		return "", fmt.Errorf("%s is no file of at most %d MB", agent.CleanText(path), images.Most>>20)
	}
	data, err := io.ReadAll(io.LimitReader(f, images.Most))
	if err != nil {
		return "", fmt.Errorf("%s cannot be read", agent.CleanText(path))
	}
	kind := http.DetectContentType(data)
	if !strings.HasPrefix(kind, "image/") {
		return "", fmt.Errorf("%s is no image", agent.CleanText(path))
	}
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data), nil
}
