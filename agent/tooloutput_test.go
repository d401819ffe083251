package agent

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A model that follows the offsets reads the whole output, and no character is cut.
func TestToolOutputPartsMakeTheWhole(t *testing.T) {
	output := strings.Repeat("héllo 🌍 ", 3000)
	for _, limit := range []float64{1, 7, 1000, 0, outputMost} {
		var got strings.Builder
		p := ToolOutputParams{ToolCallID: "c", Limit: limit}
		for parts := 0; ; parts++ {
			require.Less(t, parts, 60_000)
			text, err := FormatToolOutput(output, p)
			require.NoError(t, err)
			require.True(t, utf8.ValidString(text))
			at := strings.LastIndex(text, "\n[bytes ")
			got.WriteString(text[:at])
			var from, to, all, next int
			if n, _ := fmt.Sscanf(text[at+1:], "[bytes %d to %d of %d; continue with offset %d]", &from, &to, &all, &next); n < 4 {
				assert.Contains(t, text[at:], "this is the end")
				break
			}
			p.Offset = float64(next)
		}
		require.Equal(t, output, got.String(), "limit %v", limit)
	}
	_, err := FormatToolOutput("abc", ToolOutputParams{Offset: 3})
	assert.ErrorContains(t, err, "nothing at offset 3")
	text, err := FormatToolOutput("", ToolOutputParams{})
	require.NoError(t, err)
	assert.Equal(t, "(the output is empty)", text)
}

func TestToolOutputParams(t *testing.T) {
	p, err := ParseToolOutputParams([]byte(`{"toolCallId":"c","offset":5,"limit":10}`))
	require.NoError(t, err)
	assert.Equal(t, ToolOutputParams{"c", 5, 10}, p)
	for _, bad := range []string{``, `{}`, `{"toolCallId":""}`, `{"toolCallId":"c","offset":-1}`, `{"toolCallId":"c","limit":50000}`, `{"toolCallId":"c","lines":1}`, `[]`} {
		_, err := ParseToolOutputParams([]byte(bad))
		assert.Equal(t, CodeInvalid, CodeOf(err), bad)
	}
}

func TestShortenedOutputIsRecognised(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	shorten := func(text string) string {
		shown, err := ShortenOutput(io.NewSectionReader(strings.NewReader(text), 0, int64(len(text))), 64<<10, "t.1.0")
		require.NoError(t, err)
		return shown
	}
	shown := shorten(long)
	assert.Equal(t, Shorten(long, 64<<10, "; the whole output is kept with call t.1.0, tool_output reads it"), shown)
	assert.Equal(t, strings.Replace(shown, " 34465 bytes", " 934465 bytes", 1), shorten(strings.Repeat("x", 1_000_000)))
	assert.Contains(t, shown, "kept with call t.1.0, tool_output reads it")
	assert.True(t, HasShortenedOutput([]Message{{Role: RoleTool, Content: Text(shown)}}))
	assert.False(t, HasShortenedOutput([]Message{{Role: RoleTool, Content: Text(long)}, {Role: RoleUser, Content: Text(shown)}}))
	assert.Equal(t, "short", shorten("short"))
}
