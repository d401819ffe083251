package openai

import (
	"regexp"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// noImages are the ways in which servers say that a model takes no images. They have
// no code for it in common, and statuses from 400 to 500. Where each comes from is in
// images_test.go.
var noImages = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`image[ _]urls? (is|are) only supported`,
	`image_url\W{0,2} is not supported`,
	`\b(images|image[ _-]?(inputs?|content|understanding)|vision|multi-?modal)( inputs?| content| data)?( modalit(y|ies))? (is|are) not (currently |yet )?(supported|enabled|available|accepted|allowed)`,
	`(n't|\bnot|\bnor) (currently |yet )?(support|accept|allow|take|see)(ing)? (the |any )?(input modality )?\W?(images?|vision|multi-?modal)\b`,
	`endpoints? found that supports? images?`,
	`(not an? |non-)(multi-?modal|vision)`,
	`multi-?modal\w* .{0,40}not supported`,
	`missing data required for image`,
	`\bmmproj\b`,
	`unknown variant \W?image_url`,
	`untagged enum ChatCompletionRequestContent`,
	`invalid type: sequence, expected a string`,
	`content\W{1,5}(value )?(must|should) be a (valid )?string`,
	`"content".{0,120}(input should be|not) a valid string`,
	`\b(only (supports? |accepts? |takes? )?|(supports?|accepts?|takes?) only )\W?text\W? (content( types?)?|inputs?|parts?|messages?|is|are)\b`,
	`(allowed values|取值范围)\W{0,4}text\W{0,3}\]`,
	`unexpected item type in content`,
	`at most 0 images?`,
}, "|"))

// oneImage follows where a server refuses an image for what it is, not because it is
// one: such a request is not helped by leaving all of them out for good.
var oneImage = regexp.MustCompile(`(?i)^[\s_-]*(formats?|types?|media|mime|sizes?|dimensions?|urls?|encodings?|extensions?|resolutions?|files?|larger|bigger|over|above|smaller|with)\b`)

// refusesImages reports whether an error says that the model takes no images. It is
// only asked where a request may be at fault: what a limit or a key is refused for
// has nothing to do with it.
func refusesImages(code, text string) bool {
	switch code {
	case agent.ModelRateLimited, agent.ModelAuth, agent.ModelContextTooLong, agent.ModelContentFilter:
		return false
	}
	for _, m := range noImages.FindAllStringIndex(text, -1) {
		if !oneImage.MatchString(text[m[1]:]) {
			return true
		}
	}
	return false
}
