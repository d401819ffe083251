package spool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
)

// Spans that are not Spool's get random ids from the generator, valid and no two alike.
func TestTraceIDsOfOtherSpans(t *testing.T) {
	ids := spool.TraceIDs()
	trace, span := ids.NewIDs(t.Context())
	require.True(t, trace.IsValid())
	require.True(t, span.IsValid())
	other, another := ids.NewIDs(t.Context())
	require.NotEqual(t, trace, other)
	require.NotEqual(t, span, another)
	require.NotEqual(t, span, ids.NewSpanID(t.Context(), trace))
}
