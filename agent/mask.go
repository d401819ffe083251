package agent

import "regexp"

// masked stands where a secret was.
const masked = "xxxxx"

var (
	// Up to the last @: what is not escaped as it should be is hidden too.
	userInfo = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*:(?://)?[^/:@\s]*):.*@`)
	// The same inside a text, where an address ends at the first space or quote.
	userInfoInside = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^/:@\s"]*):[^\s"]*@`)
	// A parameter of a URL, or key=value of a connection string.
	parameter = regexp.MustCompile(`(?i)((?:^|[?&;\s])[\w.-]*(?:pass|pwd|key|token|secret|sig|auth|cred)[\w.-]*=)('[^']*'|[^&;\s"#]*)`)
)

// MaskURL hides the passwords and keys in a URL or connection string, also in one
// that cannot be parsed.
func MaskURL(s string) string {
	return MaskURLs(userInfo.ReplaceAllString(s, "${1}:"+masked+"@"))
}

// MaskURLs is MaskURL for the URLs in a text.
func MaskURLs(text string) string {
	text = userInfoInside.ReplaceAllString(text, "${1}:"+masked+"@")
	return parameter.ReplaceAllString(text, "${1}"+masked)
}
