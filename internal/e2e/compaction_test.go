package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// pages writes n files of about bytes bytes each into the workspace and returns
// the step of a script that reads them one after another.
func pages(t *testing.T, s *tt.Stack, n, bytes int) string {
	t.Helper()
	for i := 1; i <= n; i++ {
		text := fmt.Sprintf("page %d\n", i) + strings.Repeat("a line of words that say little\n", bytes/32)
		require.NoError(t, os.WriteFile(filepath.Join(s.Work, fmt.Sprintf("page%d.txt", i)), []byte(text), 0o600))
	}
	return fmt.Sprintf("repeat %d %s", n, script.Call("file_read", map[string]any{"path": "page%d.txt"}))
}

// summaries are those stored of a thread; each has its event.
func summaries(t *testing.T, s *tt.Stack, thread string) []memory.Summary {
	t.Helper()
	all, err := s.Store.Summaries(s.Ctx(), thread)
	require.NoError(t, err)
	var told []memory.Summary
	for _, sum := range all {
		if sum.Text != "" {
			told = append(told, sum)
		}
	}
	var seen []memory.Summary
	for _, e := range events(t, s, thread) {
		if e.Type == agent.EventContextSummary {
			var sum memory.Summary
			require.NoError(t, json.Unmarshal(e.Data, &sum))
			seen = append(seen, sum)
		}
	}
	require.Len(t, seen, len(told))
	for i, sum := range told {
		require.Equal(t, [3]any{sum.ReplacesFrom, sum.ReplacesTo, sum.Text}, [3]any{seen[i].ReplacesFrom, seen[i].ReplacesTo, seen[i].Text})
	}
	return all
}

// warnings are the codes of a thread's warnings, but for those of waits.
func warnings(t *testing.T, s *tt.Stack, thread string) (codes []string) {
	t.Helper()
	for _, e := range events(t, s, thread) {
		if e.Type == agent.EventWarning {
			var w agent.Warning
			require.NoError(t, json.Unmarshal(e.Data, &w))
			require.NotEmpty(t, w.Message)
			if w.Wait == nil {
				codes = append(codes, w.Code)
			}
		}
	}
	return codes
}

// Row 57, FAULTS B4 and B5: a turn of 25 rounds that is several times as long as
// the window is summarised while it runs, batches stay whole, and messages, log
// and links are all there afterwards.
func TestRow57_CompactionInsideATurn(t *testing.T) {
	s := stack(t)
	s.Model.Window, s.Model.KeepBodies = 12000, true
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000")
	r := s.Ask("s1", script.Script(pages(t, s, 25, 6000), "say the end"))
	require.Equal(t, "the end", r.Response, r.Error)

	m := messages(t, s, r.ThreadID)
	require.Len(t, m, 1+2*25+1)
	require.Contains(t, m[2].Content.String(), "page 1", "the messages stay as they are")
	sums := summaries(t, s, r.ThreadID)
	require.GreaterOrEqual(t, len(sums), 3)
	require.LessOrEqual(t, len(sums), 25)
	for i, sum := range sums {
		require.Equal(t, memory.CauseFull, sum.Cause, "by our count, before the provider had to refuse")
		require.EqualValues(t, 1, sum.ReplacesFrom)
		require.Equal(t, agent.RoleTool, m[sum.ReplacesTo-1].Role, "whole rounds are replaced")
		require.Equal(t, 1, sum.Attempts)
		if i > 0 {
			require.Greater(t, sum.ReplacesTo, sums[i-1].ReplacesTo)
		}
	}
	th := thread(t, s, r.ThreadID)
	require.EqualValues(t, len(sums), th.Compactions)
	require.Equal(t, agent.MessageRange(th.ID, 1, sums[len(sums)-1].ReplacesTo), th.SummarizedFrom)
	require.EqualValues(t, 26+len(sums), th.RequestCount, "summaries are paid for, too")
	require.Equal(t, s.Model.Charged().TotalTokens, th.TotalTokens)
	for _, q := range s.Model.Records() {
		require.Equal(t, 200, q.Status, "no request was too long")
	}
}

// Row 57: between turns, too: a conversation goes on for longer than the window.
func TestRow57_CompactionBetweenTurns(t *testing.T) {
	s := stack(t)
	s.Model.Window, s.Model.KeepBodies = 12000, true
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000")
	var r = s.Ask("s1", "script: say hello")
	for i := range 12 {
		r = s.Ask("s1", fmt.Sprintf("script: say answer %d\n%s", i, strings.Repeat("# what a person has to tell\n", 200)))
		require.Equal(t, fmt.Sprintf("answer %d", i), r.Response, r.Error)
	}
	require.NotEmpty(t, summaries(t, s, r.ThreadID))
	require.Len(t, messages(t, s, r.ThreadID), 26)
	for _, q := range s.Model.Records() {
		require.Equal(t, 200, q.Status)
	}
}

// Row 57: in a child, and in one that was given its parent's long conversation.
func TestRow57_CompactionInChildren(t *testing.T) {
	s := stack(t)
	s.Model.Window = 12000
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000")
	step := pages(t, s, 12, 6000)
	var steps []string
	for i := 3; i <= 12; i++ {
		steps = append(steps, script.Call("file_read", map[string]any{"path": fmt.Sprintf("page%d.txt", i)}))
	}
	task := map[string]any{"agent": "general", "task": script.Script(append(steps, "say child end")...), "shareContext": true}
	r := s.Ask("s1", script.Script(strings.ReplaceAll(step, "repeat 12", "repeat 2"), script.Call("assign_task", task), "say root end"))
	require.Equal(t, "root end", r.Response, r.Error)
	child := tree(t, s, r.ThreadID)[1]
	require.Equal(t, agent.ThreadCompleted, child.Status, messages(t, s, r.ThreadID)[6].Content.String())
	sums := summaries(t, s, child.ID)
	require.GreaterOrEqual(t, len(sums), 2)
	require.Len(t, messages(t, s, child.ID), 1+2*10+1)
	root := thread(t, s, r.ThreadID)
	require.Equal(t, s.Model.Charged().TotalTokens, root.TotalTokens, "a child's summaries are in the total of its tree")
	require.Equal(t, s.Model.Charged().Requests, root.RequestCount)
}

// Row 57: the ids of sub-agents and the questions that are open are kept, whatever
// the model makes of the rest.
func TestRow57_SummaryKeepsIDsAndQuestions(t *testing.T) {
	s := stack(t)
	s.Model.Window = 12000
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000")
	background := `call assign_task {"agent":"general","task":"script: call ask_user {\"question\":\"Which colour?\"} ;; say asked","background":true}`
	r := s.Ask("s1", script.Script(background, "say started"))
	q := openQuestions(t, s, r.ThreadID, 1)[0]
	child := tree(t, s, r.ThreadID)[1]
	m := s.Message("s1", script.Script(pages(t, s, 10, 6000), "say the end"))
	m.WhenBusy = memory.Queue
	sent := send(t, s, m)
	require.Equal(t, "the end", s.Wait(sent).Response)
	sums := summaries(t, s, r.ThreadID)
	require.NotEmpty(t, sums)
	for _, sum := range sums {
		require.Contains(t, sum.Text, child.AgentID)
		require.Contains(t, sum.Text, q.ID)
		require.Contains(t, sum.Text, "Which colour?")
	}
	answer(t, s, q.ID, "blue")
}

// FAULTS A13: a provider that refuses a request as too long, although by our count
// it fits, gets a summarised one, once; what it said of its window is remembered.
func TestFault_A13_ContextLengthCompactsOnceAndGoesOn(t *testing.T) {
	s := stack(t)
	s.Model.Window = 9000
	s.StartWorker() // the window of "fake" is not known: 128,000 is assumed
	r := s.Ask("s1", script.Script(pages(t, s, 14, 6000), "say the end"))
	require.Equal(t, "the end", r.Response, r.Error)
	refused := 0
	for _, q := range s.Model.Records() {
		if q.Status != 200 {
			refused++
		}
	}
	require.Equal(t, 1, refused)
	sums := summaries(t, s, r.ThreadID)
	require.Equal(t, memory.CauseRefused, sums[0].Cause)
	require.EqualValues(t, 9000, sums[0].Window)
	for _, sum := range sums[1:] {
		require.Equal(t, memory.CauseFull, sum.Cause)
	}
}

// FAULTS A13: where nothing helps, the turn ends with a typed error; no loop. The
// thread goes on when the reason is gone.
func TestFault_A13_NoCompactionLoop(t *testing.T) {
	s := stack(t)
	s.Model.Window = 300 // less than the tools take
	s.StartWorker()
	r := s.Ask("s1", script.Script(add(1, 2), "say never"))
	require.Equal(t, string(agent.ThreadFailed), r.Status)
	require.Equal(t, agent.ModelContextTooLong, r.ErrorCode, r.Error)
	require.LessOrEqual(t, len(s.Model.Records()), 4)
	require.Contains(t, events(t, s, r.ThreadID)[len(events(t, s, r.ThreadID))-1].Type, agent.EventError)
	s.Model.Window = 0
	require.Equal(t, "fine", s.Ask("s1", "script: say fine").Response)
}

// A server that reads only a part of what it is sent, without saying so, is a
// warning that a person sees, once a turn.
func TestRow57_SilentTruncationIsAWarning(t *testing.T) {
	s := stack(t)
	s.Model.Window, s.Model.Silent = 1500, true
	s.StartWorker()
	r := s.Ask("s1", script.Script(pages(t, s, 3, 8000), "say the end"))
	require.Equal(t, "the end", r.Response, r.Error)
	require.Equal(t, []string{agent.WarnTruncated}, warnings(t, s, r.ThreadID))
	_, progress, _ := starterApart(t, s, "show", "--follow", r.ThreadID)
	require.Contains(t, progress, "the model server read only 1500 of about ")
}

// Killing the worker while a summary is made: it is made once, and the turn ends as
// if nothing had happened.
func TestRow57_SummaryIsMadeOnce(t *testing.T) {
	s := stack(t)
	s.Model.Window = 12000
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000", "SPOOL_CRASH_AT=after-summary")
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000")
	r := s.Ask("s1", script.Script(pages(t, s, 12, 6000), "say the end"))
	require.Equal(t, "the end", r.Response, r.Error)
	require.Len(t, messages(t, s, r.ThreadID), 1+2*12+1)
	th, sums := thread(t, s, r.ThreadID), summaries(t, s, r.ThreadID)
	require.NotEmpty(t, sums)
	require.EqualValues(t, len(sums), th.Compactions)
	require.Equal(t, s.Model.Charged().TotalTokens, th.TotalTokens)
}
