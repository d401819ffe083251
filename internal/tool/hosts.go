package tool

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// urlIn finds the scheme and the host of a URL in a text.
	urlIn = regexp.MustCompile("(?i)https?://(?:\\[[0-9a-f:.%]+\\]|[^\\s/?#<>\"'`(){}\\[\\]|\\\\^]+)+")
	// nameIn finds names with dots that stand alone: no part of a path or an address.
	nameIn = regexp.MustCompile(`(?:^|[\s"'<(\[` + "`" + `])((?:[\pL\pN-]+\.)+[\pL\pN-]*\pL[\pL\pN-]*)`)
	// siteEnds are ends of names that stand for a site also without https:// in front:
	// others, such as those of main.tf, Makefile.in and README.md, are more often ends of
	// files.
	siteEnds = strings.Fields("com org net edu gov mil int info biz io dev app ai cloud eu de fr uk ch at nl be se dk fi cz pt gr hu ro jp cn kr au nz br ca us")
)

// HostsIn lists the hosts that a text names: those of URLs, and names that stand
// alone, such as example.com, if they end as sites do.
func HostsIn(text string) (hosts []string) {
	const ends = ".,;:!?*_~"
	for _, u := range urlIn.FindAllString(text, -1) {
		if host := hostOf(strings.TrimRight(u, ends)); host != "" {
			hosts = append(hosts, host)
		}
	}
	for _, m := range nameIn.FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(m[1])
		if slices.Contains(siteEnds, name[strings.LastIndexByte(name, '.')+1:]) {
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
		return a.WithZone("").String()
	}
	return strings.TrimPrefix(host, "www.")
}

// urlMatches reports whether a rule's pattern, [SCHEME://]HOST[:PORT][/PATH], matches a
// URL: each part is held against that part of the URL alone, the path in each of its
// readings or, for a rule that restricts, in any.
func urlMatches(pattern, raw string, restricts bool) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || hostOf(raw) == "" {
		return false
	}
	scheme, rest, ok := strings.Cut(pattern, "://")
	if !ok {
		scheme, rest = "http*", pattern
	}
	host, where, hasPath := strings.Cut(rest, "/")
	if h, open := strings.CutSuffix(host, "*"); open && !hasPath && h != "" && !strings.HasSuffix(h, ".") {
		host, where, hasPath = h, "*", true // https://go.dev* means what lies there
	}
	if !hasPath {
		where = "*"
	}
	there := func(way string) bool {
		if way = strings.TrimPrefix(way, "/"); u.RawQuery != "" {
			way += "?" + u.RawQuery
		}
		return wildcard(where, way)
	}
	host = strings.ToLower(host)
	written, meant := there(u.EscapedPath()), there(pathOf(u))
	return wildcard(strings.ToLower(scheme), u.Scheme) && (written && meant || restricts && (written || meant)) &&
		(hostMatches(host, siteOf(u)) || hostMatches(host, strings.ToLower(u.Host)))
}

// pathOf is the path of a URL as servers read it that follow "..", however it is written.
func pathOf(u *url.URL) string {
	plain := u.Path
	for range 2 { // a decoder may be called more than once
		if again, err := url.PathUnescape(plain); err == nil {
			plain = again
		}
	}
	names := strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' })
	for i := range names {
		names[i], _, _ = strings.Cut(names[i], ";")
	}
	if !slices.Contains(names, ".") && !slices.Contains(names, "..") {
		return u.EscapedPath()
	}
	return path.Join(names...)
}

// hostMatches compares hosts. A * in front stands for any sub-domains, others for a part
// of a name between dots.
func hostMatches(pattern, host string) bool {
	if rest, ok := strings.CutPrefix(pattern, "*."); ok {
		if i := len(strings.Split(host, ".")) - len(strings.Split(rest, ".")); i > 0 {
			return hostMatches(rest, strings.Join(strings.Split(host, ".")[i:], "."))
		}
		return false
	}
	if pattern == "*" {
		return true
	}
	want, have := strings.Split(pattern, "."), strings.Split(host, ".")
	return slices.EqualFunc(want, have, wildcard)
}
