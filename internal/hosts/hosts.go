// Package hosts says by which names a server on this machine may be asked. A page
// elsewhere can let its own name point here (DNS rebinding), and would then read what
// the server answers.
package hosts

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Known reports whether a Host header may be ours: an address, which no page can take
// for its own name; localhost and what ends with it, which browsers look up nowhere;
// and the given names, in lower case. A port does not count.
func Known(hostport string, names []string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(names, host)
}
