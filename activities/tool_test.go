package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// away is a store that saves no result for so many tries.
type away struct {
	memory.ConversationMemoryStore
	tries int
	saved int
}

func (s *away) SaveResult(context.Context, memory.ToolOutcome) error {
	if s.saved++; s.saved <= s.tries {
		return agent.Errorf(agent.CodeUnavailable, "the store is away")
	}
	return nil
}

// A result waits for a store that is away, but for seconds only once the worker stops.
func TestAResultDoesNotHoldUpTheEndOfAWorker(t *testing.T) {
	t.Parallel()
	save := func(s *away, cut chan struct{}) error {
		return (&Activities{Store: s, Cut: cut}).saveResult(t.Context(), memory.ToolOutcome{}, false)
	}
	require.NoError(t, save(&away{tries: 3}, make(chan struct{})))
	stopped := make(chan struct{})
	close(stopped)
	begun, gone := time.Now(), &away{tries: 1 << 30}
	require.ErrorContains(t, save(gone, stopped), "the store is away")
	require.Greater(t, time.Since(begun), lastSaves)
	require.Greater(t, gone.saved, 2, "it was tried until then")
}
