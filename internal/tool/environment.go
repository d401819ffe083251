package tool

import "strings"

// PassedOn are the variables that commands and MCP servers inherit. The worker's own
// environment holds secrets, so there is nothing else that they do.
var PassedOn = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

// PassOn is what of the value of such a variable is passed on: not the name and the
// password for a proxy.
func PassOn(name, value string) string {
	at := strings.LastIndex(value, "@")
	if at < 0 || !strings.HasSuffix(strings.ToLower(name), "_proxy") {
		return value
	}
	scheme, _, found := strings.Cut(value[:at], "://")
	if !found {
		return value[at+1:]
	}
	return scheme + "://" + value[at+1:]
}

// unattended makes programs end at once that would wait for a person: editors, pagers,
// questions for passwords.
var unattended = []string{
	"TERM=dumb", "CI=true", "PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat",
	"GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "EDITOR=false", "VISUAL=false", "VIMINIT=autocmd VimEnter * cquit",
	"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "GCM_INTERACTIVE=never", "SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=force", "SUDO_ASKPASS=/bin/false",
	"DEBIAN_FRONTEND=noninteractive", "PIP_NO_INPUT=1",
}
