package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

func TestQuantiles(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	require.InDelta(t, 3.0, median(values), 0)
	require.InDelta(t, 3.5, median(append(values, 6)), 0)
	require.InDelta(t, 5.0, quantile(values, 0.95), 0)
	require.InDelta(t, 1.0, quantile(values, 0), 0)
	require.InDelta(t, 0.0, median([]float64{}), 0)
	require.Equal(t, []float64{5, 1, 4, 2, 3}, values, "the input is left as it is")
}

// A miss is printed as such; what was not measured makes the program fail.
func TestTableJudges(t *testing.T) {
	var tb table
	tb.add(row{Figure: "low", Value: 1.2, Unit: "×", Bar: 1.25})
	tb.add(row{Figure: "high", Value: 1.3, Unit: "×", Bar: 1.25})
	tb.add(row{Figure: "free", Value: 250, Unit: "ms"})
	require.False(t, tb.Failed)
	tb.fail("broken", context.Canceled)
	require.True(t, tb.Failed)
	var results []string
	for _, r := range tb.Rows {
		results = append(results, r.Result)
	}
	require.Equal(t, []string{"ok", "miss", "", notMeasured}, results)

	var text, doc bytes.Buffer
	require.NoError(t, tb.text(&text))
	require.Regexp(t, `high +1\.3× +≤ 1\.25× +miss`, text.String())
	require.Regexp(t, `free +250 ms`, text.String())
	require.NoError(t, tb.json(&doc))
	var back table
	require.NoError(t, json.Unmarshal(doc.Bytes(), &back))
	require.Equal(t, tb.Rows, back.Rows)
}

// The floor's request has the size it is told to have, so that it costs what
// Spool's costs.
func TestFloorBodyHasItsSize(t *testing.T) {
	for _, n := range []int{10_000, 100_000, 800_000} {
		body, err := floorBody(n)
		require.NoError(t, err)
		require.InEpsilon(t, n, len(body), 0.02)
	}
}

// The floor understands what the stub says, and the stub knows who asked.
func TestFloorReadsTheStub(t *testing.T) {
	s, err := startStub()
	require.NoError(t, err)
	defer s.close()
	s.play(calls(1, calculate))
	ask := func(id string) floorReply {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set("X-Client-Request-Id", id)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		var out floorReply
		_, err = readFloor(resp.Body, &out)
		require.NoError(t, err)
		return out
	}
	require.Equal(t, floorReply{Tool: "calculator", Args: `{"expression":"1+1"}`}, ask("a.b.1.1"))
	require.Empty(t, ask("a.b.2.1").Tool)
	asks := s.asked("a.b")
	require.Len(t, asks, 2)
	require.Equal(t, 2, asks[1].Step)
	require.Zero(t, asks[0].First)
	require.NotZero(t, asks[1].First, "only the second reply has text")
}

// Seeding makes the conversation, and the thread, that is asked for.
func TestSeeding(t *testing.T) {
	store, err := spool.OpenStore(t.Context(), "sqlite:"+t.TempDir()+"/spool.db")
	require.NoError(t, err)
	defer store.Close()
	converse(t.Context(), store, "talk", "", 20_000)
	messages, err := store.Messages(t.Context(), agent.MainThreadID("talk", agent.DefaultConversation), 0, 0)
	require.NoError(t, err)
	bytes := 0
	for _, m := range messages {
		bytes += len(m.Content.String())
	}
	require.Equal(t, 20_000, bytes)

	lengthen(t.Context(), store, 2500)
	thread, err := store.Thread(t.Context(), user, agent.MainThreadID(appendSession, agent.DefaultConversation))
	require.NoError(t, err)
	require.InDelta(t, 2500, thread.MessageCount, 2)
	require.NotZero(t, appendTurn(t.Context(), store, appendSession, 0))
}
