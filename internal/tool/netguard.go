package tool

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/idna"
)

// errPrivate marks a refused address.
var errPrivate = errors.New("the address is private, local or reserved, which web_fetch must not reach")

// notPublic lists what netip has no method for: shared, reserved, test and
// translated networks, the last as they can carry a private IPv4 address.
var notPublic = func() (nets []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		nets = append(nets, netip.MustParsePrefix(s))
	}
	return nets
}()

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

// privateURL reports whether a URL names a private address literally, in any of
// the ways that resolvers read one. Names that merely resolve to one are found when
// they are dialled.
func privateURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	host := plainHost(u)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, ok := literalAddr(host)
	return ok && !isPublic(a)
}

// plainHost is the host of a URL as it is looked up: digits and letters of other
// scripts that stand for ASCII are read as such.
func plainHost(u *url.URL) string {
	host := u.Hostname()
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// literalAddr reads an address, the old forms of IPv4 included that some resolvers
// take: 2130706433, 0x7f.1, 0177.0.0.1.
func literalAddr(host string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a, true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var n uint64
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 0, 32)
		most, width := uint64(0xff), 1
		if i == len(parts)-1 { // the last part fills what is left
			width = 5 - len(parts)
			most = 1<<(8*width) - 1
		}
		if err != nil || v > most || strings.ContainsAny(part, "_obOB") {
			return netip.Addr{}, false
		}
		n = n<<(8*width) | v
	}
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), true
}

type network struct {
	resolver     *net.Resolver
	public       func(netip.Addr) bool
	allowPrivate bool
}

// client makes an HTTP client that checks each address right before it connects, so
// that neither a redirect nor a name that changes between look-up and connection
// leads inside. It uses no proxy: behind one, the check would see only the proxy's
// address.
func (n network) client() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: n.resolver}
	if !n.allowPrivate {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || !n.public(ap.Addr()) {
				return errPrivate
			}
			return nil
		}
	}
	transport := &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		MaxIdleConns: 10, IdleConnTimeout: 30 * time.Second,
	}
	return &http.Client{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if !n.allowPrivate && privateURL(r.URL.String()) {
				return nil, errPrivate // not left to the resolver to know
			}
			return transport.RoundTrip(r)
		}),
		CheckRedirect: checkRedirect,
	}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	if s := req.URL.Scheme; s != "http" && s != "https" {
		return fmt.Errorf("redirect to a %s: URL refused", s)
	}
	if from := via[0].URL; siteOf(req.URL) != siteOf(from) {
		return &elsewhere{req.URL}
	}
	req.Header.Del("Referer") // what led here may hold a secret
	return nil
}

// elsewhere is a redirect to another host, which may not be one that the conversation
// names.
type elsewhere struct{ to *url.URL }

func (e *elsewhere) Error() string {
	return fmt.Sprintf("it redirects to another host, %s; to go there, call web_fetch with %s", e.to.Host, e.to.Redacted())
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
