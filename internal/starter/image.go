package starter

import (
	"os"
	"path/filepath"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/images"
)

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
	case !info.Mode().IsRegular() || info.Size() > images.Most:
		return "", agent.Errorf(agent.CodeInvalid, "--image %s: it must be a file of at most %d MB", file, images.Most>>20)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", agent.Wrap(err, agent.CodeInvalid, "--image")
	}
	name, err := images.Keep(filepath.Join(home, "images"), data)
	if err != nil {
		return "", agent.Wrap(err, agent.CodeOf(err), "--image %s", file)
	}
	return name, nil
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
