package starter

import (
	"context"
	"os"

	"github.com/spool-agents/spool/agent"
)

// withImages is a message of a text and images. They are kept where the message
// goes, by their content, so that it means the same for ever and everywhere.
func withImages(ctx context.Context, c conversations, text string, files []string) (agent.Content, error) {
	if len(files) == 0 {
		return agent.Text(text), nil
	}
	content := agent.Content{Parts: []agent.Part{{Type: "text", Text: text}}}
	if len(files) > agent.MaxImages {
		return content, agent.Errorf(agent.CodeInvalid, "--image was given %d times, at most %d images are possible: send the others with another message", len(files), agent.MaxImages)
	}
	for _, file := range files {
		data, err := readImage(file)
		if err != nil {
			return content, err
		}
		name, err := c.KeepImage(ctx, data)
		if err != nil {
			return content, agent.Wrap(err, agent.CodeOf(err), "--image %s", file)
		}
		content.Parts = append(content.Parts, agent.Part{Type: "image_url", ImageURL: &agent.ImageURL{URL: agent.ImageScheme + name}})
	}
	return content, nil
}

// readImage reads a file that may be an image.
func readImage(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, agent.Wrap(err, agent.CodeInvalid, "--image")
	case !info.Mode().IsRegular() || info.Size() > agent.MaxImage:
		return nil, agent.Errorf(agent.CodeInvalid, "--image %s: it must be a file of at most %d MB", file, agent.MaxImage>>20)
	}
	data, err := os.ReadFile(file)
	return data, agent.Wrap(err, agent.CodeInvalid, "--image")
}

// missingImages tells which images messages show that are nowhere.
func (a *app) missingImages(names []string, also string) {
	for _, name := range names {
		a.progress("image %s is missing, which a message shows: %s", name, also)
	}
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
