package tool

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	// urlIn finds the scheme and the host of a URL in a text.
	urlIn = regexp.MustCompile("(?i)https?://(?:\\[[0-9a-f:.%]+\\]|[^\\s/?#<>\"'`(){}\\[\\]|\\\\^]+)+")
	// nameIn finds names with dots that stand alone: no part of a path or an address.
	nameIn = regexp.MustCompile(`(?:^|[\s"'<(\[` + "`" + `])((?:[\pL\pN-]+\.)+[\pL\pN-]*\pL[\pL\pN-]*)`)
	// alsoFiles are ends of names that are much more often those of files.
	alsoFiles = []string{"md", "py", "rs", "sh", "pl", "zip", "mov"}
)

// HostsIn lists the hosts that a text names: those of URLs, and names that stand
// alone, such as example.com.
func HostsIn(text string) (hosts []string) {
	const ends = ".,;:!?*_~"
	for _, u := range urlIn.FindAllString(text, -1) {
		if host := hostOf(strings.TrimRight(u, ends)); host != "" {
			hosts = append(hosts, host)
		}
	}
	for _, m := range nameIn.FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(m[1])
		if !slices.Contains(alsoFiles, name[strings.LastIndexByte(name, '.')+1:]) {
			hosts = append(hosts, hostOf("http://"+name))
		}
	}
	return hosts
}

// found is a result of web_search. What pages say in it names nothing.
var found = regexp.MustCompile(`(?m)^\d+\. .*\n   (https?://\S+)$`)

// HostsFound lists the hosts that a result of web_search leads to.
func HostsFound(text string) (hosts []string) {
	for _, m := range found.FindAllStringSubmatch(text, -1) {
		hosts = append(hosts, hostOf(m[1]))
	}
	return hosts
}

// hostOf is the host of a URL as hosts are compared, "" if it has none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return siteOf(u)
}

// siteOf is the host of a URL; a name with www in front is the same host.
func siteOf(u *url.URL) string {
	host := plainHost(u)
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String()
	}
	return strings.TrimPrefix(host, "www.")
}
