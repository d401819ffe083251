package activities

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// table knows one thing of every model.
type table agent.ModelInfo

func (t table) Lookup(string) agent.ModelInfo { return agent.ModelInfo(t) }

// A reply that never ends is estimated as no more than the model may make, if that is
// known; what a provider reports counts as it is.
func TestEstimatesAreBounded(t *testing.T) {
	t.Parallel()
	most := 300
	endless := agent.ModelReply{Content: strings.Repeat("again and ", 100_000), Charged: true}
	broken := &agent.ModelError{Code: agent.ModelBrokenStream, Retryable: true}
	for name, c := range map[string]struct {
		table  table
		asked  *int
		tokens int64
	}{
		"by the request":    {table{MaxOutput: 8000, Window: 128_000}, &most, 300},
		"by the table":      {table{MaxOutput: 8000, Window: 128_000}, nil, 8000},
		"by the window":     {table{Window: 4096}, nil, 4096},
		"by a small window": {table{Window: 256}, &most, 256},
	} {
		a := &Activities{Models: c.table}
		u := a.counted(agent.ModelRequest{Model: "m", MaxTokens: c.asked}, endless, broken)
		require.Equal(t, c.tokens, u.CompletionTokens, name)
		require.Equal(t, u.PromptTokens+c.tokens, u.TotalTokens, name)
		require.True(t, u.Estimated, name)
	}
	a := &Activities{}
	u := a.counted(agent.ModelRequest{Model: "m"}, endless, broken)
	require.Greater(t, u.CompletionTokens, int64(100_000), "nothing is known")
	require.True(t, u.Estimated)
	said := endless
	said.Usage = agent.Usage{CompletionTokens: 9000, TotalTokens: 9000}
	require.EqualValues(t, 9000, a.counted(agent.ModelRequest{MaxTokens: &most}, said, nil).CompletionTokens)
}
