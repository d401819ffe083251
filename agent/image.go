package agent

import (
	"regexp"
	"strings"
)

// Images are held by reference: a message never holds the bytes of one, which
// would be sent, stored and exported again and again. An image URL is
//
//	image:SHA256.EXT   a file of the home directory's folder images
//	file:PATH          a file of the thread's workspace
//	https://…          fetched by the provider
const (
	ImageScheme = "image:"
	FileScheme  = "file:"
)

var imageName = regexp.MustCompile(`^[0-9a-f]{64}\.(png|jpg|gif|webp)$`)

// CheckImageName reports whether a name is that of a kept image.
func CheckImageName(name string) bool { return imageName.MatchString(name) }

// CheckContent refuses parts of a message that no model takes, and images that
// are not references.
func CheckContent(content Content) error {
	for i, p := range content.Parts {
		switch {
		case p.Type == "text" && p.ImageURL == nil:
		case p.Type == "image_url" && p.ImageURL != nil && p.ImageURL.URL != "":
			if err := checkImage(i+1, p.ImageURL.URL); err != nil {
				return err
			}
		default:
			return Errorf(CodeInvalid, `part %d of the content is not valid: use {"type":"text","text":…} or {"type":"image_url","image_url":{"url":…}}`, i+1)
		}
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
