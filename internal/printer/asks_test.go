package printer

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
)

func TestQuestionsHideNothing(t *testing.T) {
	q := spool.QuestionRequest{QuestionID: "q", Agent: "ge\u202eneral", ThreadID: "s/default", Text: "Remove a\\b\u202e?\r\n\tYes\x1b[2J"}
	for _, text := range []string{(&Printer{}).Question(q), Asked(q)} {
		require.Contains(t, text, `ge\u202eneral`)
		require.Contains(t, text, "  Remove a\\\\b\\u202e?\n")
		require.Contains(t, text, `Yes\x1b[2J`)
	}
}

func TestDocumentsHideNothing(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{Out: NewWriter(&b)}
	require.NoError(t, p.Document(map[string]string{"x": "a\u202e\u009b\U000e0041\x7fü<👋"}))
	require.Equal(t, `{"x":"a\u202e\u009b\udb40\udc41\u007fü<👋"}`+"\n", b.String())
}
