package tool

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// errPrivate marks a refused address.
var errPrivate = errors.New("the address is private, local or reserved, which web_fetch must not reach")

// notPublic lists what netip has no method for: shared, reserved, test and
// translated networks, the last as they can carry a private IPv4 address.
var notPublic = func() (nets []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
	} {
		nets = append(nets, netip.MustParsePrefix(s))
	}
	return nets
}()

// isPublic reports whether an address belongs to the public internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, n := range notPublic {
		if n.Contains(a) {
			return false
		}
	}
	return true
}

// privateURL reports whether a URL names a private address literally. Names that
// merely resolve to one are found when they are dialled.
func privateURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && !isPublic(a)
}

// guardedClient makes an HTTP client that checks each address right before it
// connects, so that neither a redirect nor a name that changes between look-up
// and connection leads inside. It uses no proxy: behind one, the check would see
// only the proxy's address.
func guardedClient(allowPrivate bool) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if !allowPrivate {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || !isPublic(ap.Addr()) {
				return errPrivate
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
			MaxIdleConns: 10, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) >= 10 {
				return errors.New("stopped after 10 redirects")
			}
			if s := req.URL.Scheme; s != "http" && s != "https" {
				return fmt.Errorf("redirect to a %s: URL refused", s)
			}
			return nil
		},
	}
}
