package tool

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/agent"
)

func TestIsPublic(t *testing.T) {
	for _, s := range []string{"8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2001:4860:4860::8888", "172.32.0.1", "100.128.0.1"} {
		assert.True(t, isPublic(netip.MustParseAddr(s)), s)
	}
	for _, s := range []string{
		"127.0.0.1", "10.0.0.1", "172.31.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255",
		"198.18.0.1", "240.0.0.1", "::", "::1", "fc00::1", "fe80::1%eth0", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1",
	} {
		assert.False(t, isPublic(netip.MustParseAddr(s)), s)
	}
}

// A public page must not lead inside by a redirect. The public host is played
// by a dialler that lets this one name through.
func TestRedirectToAPrivateAddressIsRefused(t *testing.T) {
	reached := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer inside.Close()
	public := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusFound))
	defer public.Close()

	client := guardedClient(false)
	transport, ok := client.Transport.(*http.Transport)
	assert.True(t, ok)
	guarded := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "public.example:") {
			return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(public.URL, "http://"))
		}
		return guarded(ctx, network, address)
	}
	res := fetch(context.Background(), client, "http://public.example/")
	assert.Equal(t, agent.ErrPermissionDenied, res.ErrorReason, res.Content)
	assert.False(t, reached)
}
