package tool

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// Output without end costs no more memory than its limit, and no character is cut.
func TestBoundedKeepsHeadAndTail(t *testing.T) {
	for chunk := 1; chunk < 50; chunk++ {
		b := newBounded(101)
		whole := "first" + strings.Repeat("é", 500) + "last"
		for at := 0; at < len(whole); at += chunk {
			n, err := b.Write([]byte(whole[at:min(len(whole), at+chunk)]))
			assert.NoError(t, err)
			assert.Equal(t, min(chunk, len(whole)-at), n)
		}
		got := b.String()
		assert.True(t, utf8.ValidString(got), chunk)
		assert.True(t, strings.HasPrefix(got, "firsté") && strings.HasSuffix(got, "élast"), got)
		assert.Less(t, len(got), 101+40)
		kept := strings.Count(got, "é")
		assert.Contains(t, got, fmt.Sprintf("[… %d bytes left out …]", 2*(500-kept)))
	}
}
