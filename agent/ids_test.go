package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRow31_ThreadIDsRoundTrip(t *testing.T) {
	for _, c := range []struct {
		id   string
		want ParsedThreadID
	}{
		{MainThreadID("0190b5f4-7b1c-7abc-8def-0123456789ab", "default"), ParsedThreadID{Kind: KindMain, SessionID: "0190b5f4-7b1c-7abc-8def-0123456789ab", ConversationID: "default"}},
		{"1764277154123/cli", ParsedThreadID{Kind: KindMain, SessionID: "1764277154123", ConversationID: "cli"}},
		{SubThreadID("researcher", "researcher-1764277154123-0123456789ab"), ParsedThreadID{Kind: KindSubAgent, AgentType: "researcher", AgentID: "researcher-1764277154123-0123456789ab"}},
	} {
		got, err := ParseThreadID(c.id)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestRow80_StrangeIDsAreRefused(t *testing.T) {
	for _, id := range []string{
		"", "/", "a", "a/", "/b", "a/b/c", "../etc/passwd", "a/..", "a\x00/b", "a b/c", "é/x", "agent:", "agent:x", "agent:X:y", "agent:x:", "agent:x:a/b", "agent:x:a:b",
		strings.Repeat("a", 65) + "/b", "agent:x:" + strings.Repeat("a", 300), "-a/b", ".a/b",
	} {
		_, err := ParseThreadID(id)
		require.Equal(t, CodeInvalid, CodeOf(err), "%q", id)
	}
}

func TestRow104_DerivedIDsAreStable(t *testing.T) {
	created := time.UnixMilli(1764277154123)
	a := NewAgentID("researcher", created, "s/default", "t1", "c1")
	require.Equal(t, a, NewAgentID("researcher", created, "s/default", "t1", "c1"), "a redelivery makes the same id")
	require.NotEqual(t, a, NewAgentID("researcher", created, "s/default", "t1", "c2"))
	require.Regexp(t, `^researcher-1764277154123-[0-9a-f]{12}$`, a)
	require.NotEqual(t, TurnID("s/d", "m", 0), TurnID("s/d", "m", 1))
	require.NotEqual(t, digest(16, "ab", "c"), digest(16, "a", "bc"), "parts cannot run into each other")
	require.LessOrEqual(t, len(SubThreadID(strings.Repeat("a", 64), NewAgentID(strings.Repeat("a", 64), created, "p", "t", "c"))), MaxIDLength)
}
