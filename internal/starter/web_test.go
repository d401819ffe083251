package starter

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is printed of a server can be opened, whatever it listens at.
func TestServersNameAnAddressThatCanBeOpened(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1": "http://127.0.0.1:8234", "0.0.0.0": "http://127.0.0.1:8234", "::": "http://127.0.0.1:8234", "::1": "http://[::1]:8234", "10.1.2.3": "http://10.1.2.3:8234",
	} {
		assert.Equal(t, want, openURL(&net.TCPAddr{IP: net.ParseIP(host), Port: 8234}))
	}
	assert.Equal(t, "http://127.0.0.1:8234/?token=a%2Bb", webLink(&net.TCPAddr{IP: net.IPv6unspecified, Port: 8234}, "a+b"))
}
