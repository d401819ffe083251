package activities

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// counted is a store whose threads have one message; it counts whole readings.
type counted struct {
	memory.Reader
	whole map[string]int
}

func (s counted) Messages(_ context.Context, thread string, after int64, _ int) ([]agent.Message, error) {
	if after > 0 {
		return nil, nil
	}
	s.whole[thread]++
	return []agent.Message{{ID: "m", Seq: 1, Role: agent.RoleUser, Content: agent.Text("hi")}}, nil
}

// A full cache forgets the conversation that was not used for longest, and no other.
func TestTranscriptsForgetTheOldestOnly(t *testing.T) {
	t.Parallel()
	store := counted{whole: map[string]int{}}
	var cache transcripts
	load := func(thread string) {
		_, err := cache.load(t.Context(), store, contract.Ref{Thread: thread, Turn: "t"}, agent.Thread{ID: thread})
		require.NoError(t, err)
	}
	for i := range maxTranscripts {
		load(fmt.Sprint(i))
	}
	load("0")
	load("one more")
	load("0")
	load(fmt.Sprint(maxTranscripts - 1))
	require.Equal(t, []int{1, 1}, []int{store.whole["0"], store.whole[fmt.Sprint(maxTranscripts-1)]})
	load("1")
	require.Equal(t, 2, store.whole["1"])
	cache.drop("1")
	load("1")
	require.Equal(t, 3, store.whole["1"])
}
