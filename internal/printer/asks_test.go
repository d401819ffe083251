package printer

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
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

// What waits for nobody but the next message says so.
func TestAnEndThatWaitsForTheNextMessage(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{Out: NewWriter(&b)}
	p.Thread(spool.View{Inbox: []memory.InboxEntry{{Kind: memory.EntryChild, ID: "c1", State: memory.EntryWaiting, Quiet: true}, {Kind: memory.EntryMessage, ID: "m1", State: memory.EntryWaiting, Content: agent.Text("hi")}}})
	require.Contains(t, b.String(), "in no turn\n  the end of a sub-agent's work, which the next message takes along: c1\n  message m1 waiting hi\n")
}
