package starter

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
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
	require.Equal(t, ended(exitInterrupt), a.gone(left, c, sent, context.Canceled))
	assert.Contains(t, said.String(), "the message is stored; no worker has taken it yet; see: ")
	assert.NotContains(t, said.String(), "goes on")
}

func TestHowOldTheNewsOfWorkersIs(t *testing.T) {
	assert.Empty(t, heard(1, 10*time.Second))
	assert.Equal(t, ", last heard of 40 s ago: idle, or ended", heard(1, 40*time.Second))
	assert.Equal(t, ", last heard of any of them 74 s ago: idle, or ended", heard(2, 74*time.Second))
}
