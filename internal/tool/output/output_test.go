package output

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// Output without end costs no more memory than its limit, and no character is cut.
func TestBoundedKeepsHeadAndTail(t *testing.T) {
	for chunk := 1; chunk < 50; chunk++ {
		b := New(101)
		whole := "first" + strings.Repeat("é", 500) + "last"
		for at := 0; at < len(whole); at += chunk {
			n, err := b.Write([]byte(whole[at:min(len(whole), at+chunk)]))
			assert.NoError(t, err)
			assert.Equal(t, min(chunk, len(whole)-at), n)
		}
		got, file := b.End("[end]")
		assert.Nil(t, file)
		assert.True(t, utf8.ValidString(got), chunk)
		assert.True(t, strings.HasPrefix(got, "firsté") && strings.HasSuffix(got, "élast\n[end]"), got)
		assert.Less(t, len(got), 101+46)
		kept := strings.Count(got, "é")
		assert.Contains(t, got, fmt.Sprintf("[… %d bytes left out …]", 2*(500-kept)))
	}
}

// What is long is in a file, cleaned as what is short.
func TestBoundedPutsWhatIsLongIntoAFile(t *testing.T) {
	b := New(8 << 20)
	raw := strings.Repeat("é\r\nx\ry\x00", 200_000)
	for at := 0; at < len(raw); at += 4093 {
		_, _ = b.Write([]byte(raw[at:min(len(raw), at+4093)]))
	}
	got, file := b.End("[end]")
	assert.Empty(t, got)
	whole, err := io.ReadAll(file)
	assert.NoError(t, err)
	assert.True(t, Clean(raw)+"\n[end]" == string(whole))
}
