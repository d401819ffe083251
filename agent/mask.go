package agent

import (
	"regexp"
	"strings"
	"unicode"
)

const masked = "xxxxx"

var (
	// How an address begins, also one that is not written as it should be.
	scheme = regexp.MustCompile(`^(?i)(?:sqlite|file|memory|postgres(?:ql)?|https?)\b[:;]?[/\\]*`)
	// A port that is none: perhaps the password of an address without a host.
	noPort = regexp.MustCompile(`(?i)^((?:postgres(?:ql)?|https?):/*[^/:@\[\s]*):[^/?#@\s]*[^/?#@\s\d][^/?#@\s]*`)
	// A user and a password inside a text, where an address ends at the first space or quote.
	userInfoInside = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*(?::/{0,3}|/{2,3})[^/:@\s"]*):[^\s"]*@`)
	// The same without a scheme, and a password where a port should be.
	bareUserInfo = regexp.MustCompile(`((?:^|[\s"'=(/\\])[^\s/:@"'=(]*):[^\s/"']+@`)
	noPortInside = regexp.MustCompile(`(postgres(?:ql)?:/+[^/:@\[\s"]+):[^/?#@\s"]*[^/?#@\s"\d][^/?#@\s"]*`)
	// A parameter of a URL, or key=value of a connection string.
	parameter = regexp.MustCompile(`(?i)((?:^|[?&;\s])[\w.-]*(?:pass|pwd|key|token|secret|sig|auth|cred)[\w.-]*=)('[^']*'|[^&;\s"#]*)`)
)

// MaskURL hides the passwords and keys in a URL or connection string, also in one
// that cannot be parsed: up to the last @, as what is not escaped as it should be is
// hidden too.
func MaskURL(s string) string {
	at, user := strings.LastIndexByte(s, '@'), len(scheme.FindString(s))
	if at < 0 {
		s = noPort.ReplaceAllString(s, "${1}:"+masked)
	} else if colon := strings.IndexByte(s[min(user, at):at], ':'); colon >= 0 && (user > 0 || !strings.ContainsAny(s[:at], " \t\n")) {
		s = s[:user+colon] + ":" + masked + s[at:]
	}
	return MaskURLs(s)
}

// MaskURLs is MaskURL for the URLs in a text.
func MaskURLs(text string) string {
	return parameter.ReplaceAllString(MaskPasswords(text), "${1}"+masked)
}

// MaskPasswords hides the passwords of addresses in a text, also of those that are not
// written as they should be. What is called a key is left as it is.
func MaskPasswords(text string) string {
	for _, r := range []*regexp.Regexp{userInfoInside, bareUserInfo} {
		text = r.ReplaceAllString(text, "${1}:"+masked+"@")
	}
	return noPortInside.ReplaceAllString(text, "${1}:"+masked)
}

var (
	// Keys that can be told by their form, also where the middle was left out.
	keyForm = regexp.MustCompile(`\b(?:(?:sk|gsk|csk|xai|pplx|nvapi|tgp_v1|tvly|jina|glpat|github_pat|gh[opsu]|xox[abp])[-_][\w*.…•-]{5,}|` +
		`(?:hf|r8|pk|rk|fw|pa|key)[-_][\w*.…•-]{15,}|(?:AIza|AKIA|ASIA|ya29\.|AQ\.)[\w*.…•-]{8,}|eyJ[\w-]{8,}\.[\w.-]{4,})[\w*…•-]`)
	// What a text names as one.
	keyNamed = regexp.MustCompile(`(?i)((?:(?:api|access|auth|refresh|session|subscription|private|secret)[ _-]?(?:key|token)|\b(?:authorization|passw(?:or)?d|secret|token|credentials?))` +
		"[\"'`\\\\]*\\s*(?:(?:you|provided|given|sent|used|received|is|was|header|value|found)\\s*)*[:=]\\s*[\"'`\\\\]*(?:(?:bearer|basic|key|token)\\s+)?)([^\\s\"'`\\\\,;&<>(){}\\[\\]]{4,})")
	keyQuoted    = regexp.MustCompile("(?i)((?:api|access|auth)[ _-]?(?:key|token)\\s+[\"'`]?)([\\w*.…•~+/=-]{8,})")
	keyBearer    = regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)([\w*.…•~+/=-]{8,})`)
	keyParameter = regexp.MustCompile(`(?i)([?&](?:[\w.-]*[-_])?(?:key|token|secret|sig|signature|password)=)([^&\s"'<>#]+)`)
	anyWord      = regexp.MustCompile(`[\w*…•-]{16,}`)
	longRun      = regexp.MustCompile(`[A-Za-z0-9]{16,}`)
)

// MaskSecrets hides what looks like a key or password in a text: by its form, by
// what the text calls it, and in URLs.
func MaskSecrets(text string) string { return MaskURLs(MaskKeys(text, masked)) }

// MaskKeys is MaskSecrets but for what only a URL has. mask is put in the place of
// each.
func MaskKeys(text, mask string) string {
	text = keyForm.ReplaceAllLiteralString(text, mask)
	text = keyParameter.ReplaceAllStringFunc(text, func(found string) string {
		return keyParameter.FindStringSubmatch(found)[1] + mask
	})
	for _, r := range []*regexp.Regexp{keyNamed, keyQuoted, keyBearer} {
		text = r.ReplaceAllStringFunc(text, func(found string) string {
			m := r.FindStringSubmatch(found)
			if m[2] == mask || !looksSecret(m[2]) {
				return found
			}
			return m[1] + mask
		})
	}
	return text
}

// MaskTokens hides every long word of letters mixed with digits, as keys of no
// known form are. It hides names too: it is for texts about a key that was refused.
func MaskTokens(text string) string {
	return anyWord.ReplaceAllStringFunc(text, func(word string) string {
		if run := longRun.FindString(word); run == "" || !mixed(run) || strings.HasPrefix(strings.ToLower(word), "req") {
			return word // the id of a request is what support asks for
		}
		return masked
	})
}

// looksSecret tells a value from a word such as "missing".
func looksSecret(s string) bool {
	return len(s) >= 20 || len(s) >= 6 && strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && r != '.' }) ||
		len(s) >= 8 && strings.ToLower(s[1:]) != s[1:] && strings.ToUpper(s) != s
}

func mixed(s string) bool {
	return strings.ContainsFunc(s, unicode.IsDigit) && strings.ContainsFunc(s, unicode.IsLetter)
}
