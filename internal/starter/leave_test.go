package starter

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/memory"
)

// Who leaves is told what the store knows: a message that nobody has taken does not go
// on yet.
func TestLeavingAMessageThatNobodyHasTaken(t *testing.T) {
	b := newBench(t)
	c := spool.NewClient(b.store, nil, spool.ClientOptions{UserID: owner})
	sent, err := c.Send(t.Context(), memory.SendRequest{SessionID: "s", MessageID: "m1", Content: agent.Text("hello")})
	require.NoError(t, err)
	left, leave := context.WithCancel(t.Context())
	leave()
	var said strings.Builder
	a := newApp(b.env(), strings.NewReader(""), &said, &said)
	require.Equal(t, exit.With(exit.Interrupted), a.Await(left, c, sent, nil, chat.Waiting{Wait: true}, false))
	assert.Contains(t, said.String(), "the message is stored; no worker has taken it yet; see: ")
	assert.NotContains(t, said.String(), "goes on")

	said.Reset()
	a.Gone = true
	require.Equal(t, exit.With(exit.Interrupted), a.Await(left, c, sent, nil, chat.Waiting{Wait: true}, false))
	require.Equal(t, exit.With(exit.Failed), a.Report(spool.Reply{Status: string(agent.ThreadFailed), ThreadID: "s/default"}, chat.Seen{}))
	assert.NotContains(t, said.String(), " show ", "of a store that is gone")
}
