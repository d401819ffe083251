package agent

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Images are held by reference: a message never holds the bytes of one, which
// would be sent, stored and exported again and again. An image URL is
//
//	image:SHA256.EXT   an image that the store keeps
//	file:PATH          a file of the thread's workspace
//	https://…          fetched by the provider
const (
	ImageScheme = "image:"
	FileScheme  = "file:"
)

// MaxImages is how many images a message may have.
const MaxImages = 20

var (
	imageName = regexp.MustCompile(`^[0-9a-f]{64}\.(png|jpg|gif|webp)$`)
	imageRef  = regexp.MustCompile(`\bimage:([0-9a-f]{64}\.(?:png|jpg|gif|webp))`)
)

// CheckImageName reports whether a name is that of a kept image.
func CheckImageName(name string) bool { return imageName.MatchString(name) }

// ImagesIn lists the names of the kept images that a text refers to, each once, in
// order of their names: that of a message, or what a store or a file holds of one.
func ImagesIn(text string) []string {
	if !strings.Contains(text, ImageScheme) {
		return nil
	}
	var names []string
	for _, m := range imageRef.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Images lists the names of the kept images that a content shows, in its order.
func (c Content) Images() []string {
	var names []string
	for _, p := range c.Parts {
		if p.ImageURL == nil {
			continue
		}
		if name, kept := strings.CutPrefix(p.ImageURL.URL, ImageScheme); kept {
			names = append(names, name)
		}
	}
	return names
}

// CheckContent refuses parts of a message that no model takes, images that are not
// references, and more of them than MaxImages.
func CheckContent(content Content) error {
	images := 0
	for i, p := range content.Parts {
		switch {
		case p.Type == "text" && p.ImageURL == nil:
		case p.Type == "image_url" && p.ImageURL != nil && p.ImageURL.URL != "":
			if err := checkImage(i+1, p.ImageURL.URL); err != nil {
				return err
			}
			images++
		default:
			return Errorf(CodeInvalid, `part %d of the content is not valid: use {"type":"text","text":…} or {"type":"image_url","image_url":{"url":…}}`, i+1)
		}
	}
	if images > MaxImages {
		return Errorf(CodeInvalid, "the message has %d images, at most %d are possible: send the others with another message", images, MaxImages)
	}
	return nil
}

func checkImage(part int, url string) error {
	name, kept := strings.CutPrefix(url, ImageScheme)
	switch {
	case kept && CheckImageName(name):
	case strings.HasPrefix(url, FileScheme), strings.HasPrefix(url, "https://"), strings.HasPrefix(url, "http://"):
	case strings.HasPrefix(url, "data:"):
		return Errorf(CodeInvalid, "part %d of the content holds an image: refer to it instead, by an https URL or by file:PATH of a file in the workspace; `starter send --image FILE` does", part)
	default:
		return Errorf(CodeInvalid, "part %d of the content refers to an image as %.60q: use an https URL, or file:PATH of a file in the workspace", part, url)
	}
	return nil
}

// SourceTool marks a message that holds the images of tool results. It is made for
// a request and never stored.
const SourceTool = "tool"

var toolImage = regexp.MustCompile(`\[image:([0-9a-f]{64}\.(?:png|jpg|gif|webp)), `)

// ToolImage stands for a kept image in the text of a tool's result. Stores know the
// reference and keep the image as long as the thread.
func ToolImage(name string, bytes int) string {
	return fmt.Sprintf("[%s%s, %d bytes]", ImageScheme, name, bytes)
}

// WithToolImages shows a model the images that results refer to. Messages of tools
// hold text only, in the API that all providers have: the images follow as a message
// of the user, after all results of the calls. Of more than most images the oldest
// are left out, half of most at a time, so that requests keep their beginning and
// providers can cache it.
func WithToolImages(messages []Message, most int) []Message {
	total := 0
	for _, m := range messages {
		total += len(toolImages(m))
	}
	skip := 0
	if half := max(most/2, 1); total > most {
		skip = (total - most + half - 1) / half * half
	}
	out := make([]Message, 0, len(messages)+1)
	var shown []Part
	for i, m := range messages {
		out = append(out, m)
		for _, name := range toolImages(m) {
			if skip--; skip < 0 {
				shown = append(shown, Part{Type: "image_url", ImageURL: &ImageURL{URL: ImageScheme + name}})
			}
		}
		if len(shown) > 0 && (i+1 == len(messages) || messages[i+1].Role != RoleTool) {
			text := Part{Type: "text", Text: "The images of the tool results above, in their order:"}
			out = append(out, Message{Role: RoleUser, Source: SourceTool, TurnID: m.TurnID, Content: Content{Parts: slices.Concat([]Part{text}, shown)}})
			shown = nil
		}
	}
	return out
}

func toolImages(m Message) (names []string) {
	if m.Role != RoleTool {
		return nil
	}
	for _, found := range toolImage.FindAllStringSubmatch(m.Content.Value, -1) {
		if !slices.Contains(names, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

// ToolImageTokens guesses what the messages of WithToolImages cost a model.
func ToolImageTokens(messages []Message) int {
	n := 0
	for _, m := range messages {
		if m.Source == SourceTool {
			n += MessageTokens(m)
		}
	}
	return n
}

// HasImages reports whether messages show a model an image.
func HasImages(messages []Message) bool {
	return slices.ContainsFunc(messages, func(m Message) bool {
		return slices.ContainsFunc(m.Content.Parts, func(p Part) bool { return p.ImageURL != nil })
	})
}

// WithoutImages tells a model that takes no images of them in words. What is left is
// plain text: servers of such models refuse lists of parts, too. The input is not
// changed.
func WithoutImages(messages []Message) []Message {
	out := slices.Clone(messages)
	for i, m := range out {
		if m.Content.Parts == nil {
			continue
		}
		parts := slices.Clone(m.Content.Parts)
		for k, p := range parts {
			if p.ImageURL != nil {
				name := Shorten(CleanText(strings.TrimPrefix(p.ImageURL.URL, ImageScheme)), 200, "")
				parts[k] = Part{Type: "text", Text: "[image " + name + ": this model cannot see images]"}
			}
		}
		out[i].Content = Text(Content{Parts: parts}.String())
	}
	return out
}
