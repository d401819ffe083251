package starter

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spool-agents/spool/agent"
)

// imageKinds are the images that models take, with the ending of their files.
var imageKinds = map[string]string{"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}

// mostImage is what a worker sends to a model, in bytes.
const mostImage = 10 << 20

// withImages is a message of a text and images. The images are kept in the home
// directory by their content, so that a message means the same for ever.
func withImages(text, home string, files []string) (agent.Content, error) {
	if len(files) == 0 {
		return agent.Text(text), nil
	}
	parts := []agent.Part{{Type: "text", Text: text}}
	for _, file := range files {
		name, err := keepImage(home, file)
		if err != nil {
			return agent.Content{}, err
		}
		parts = append(parts, agent.Part{Type: "image_url", ImageURL: &agent.ImageURL{URL: agent.ImageScheme + name}})
	}
	return agent.Content{Parts: parts}, nil
}

// keepImage copies an image into the home directory and returns its name there.
func keepImage(home, file string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", agent.Wrap(err, agent.CodeInvalid, "--image")
	case !info.Mode().IsRegular() || info.Size() > mostImage:
		return "", agent.Errorf(agent.CodeInvalid, "--image %s: it must be a file of at most %d MB", file, mostImage>>20)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", agent.Wrap(err, agent.CodeInvalid, "--image")
	}
	ending := imageKinds[http.DetectContentType(data)]
	if ending == "" {
		return "", agent.Errorf(agent.CodeInvalid, "--image %s: it is no PNG, JPEG, GIF or WebP", file)
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:]) + "." + ending
	dir := filepath.Join(home, "images")
	if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
		return name, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", agent.Wrap(err, agent.CodeUnavailable, "keep the image %s", file)
	}
	t, err := os.CreateTemp(dir, "new-*") // a worker must not see a part of it
	if err != nil {
		return "", agent.Wrap(err, agent.CodeUnavailable, "keep the image %s", file)
	}
	defer func() { _ = os.Remove(t.Name()) }()
	_, err = t.Write(data)
	if err == nil {
		err = t.Sync()
	}
	if cerr := t.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(t.Name(), filepath.Join(dir, name))
	}
	return name, agent.Wrap(err, agent.CodeUnavailable, "keep the image %s", file)
}

// shownContent is a content in words: images are named.
func shownContent(c agent.Content) string {
	text := c.String()
	for _, p := range c.Parts {
		if p.ImageURL != nil {
			text += "\n[image " + p.ImageURL.URL + "]"
		}
	}
	return text
}
