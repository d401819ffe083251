package hosts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKnown(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:8080": true, "[::1]:8080": true, "::1": true, "192.0.2.1": true,
		"localhost": true, "LOCALHOST:1": true, "a.localhost.": true, "spool.example": true, "Spool.Example.:443": true,
		"evil.example": false, "localhost.evil.example": false, "notlocalhost": false, "other.spool.example": false, "": false,
	} {
		require.Equal(t, want, Known(host, []string{"spool.example"}), host)
	}
}
