package agent

import (
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
