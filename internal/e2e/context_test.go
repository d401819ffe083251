package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// shape is the roles of a request and what its messages say, shortened.
func shape(m []agent.Message) string {
	var out []string
	for _, x := range m {
		out = append(out, string(x.Role))
	}
	return strings.Join(out, " ")
}

// Row 8: with shareContext a child's model sees the parent's messages up to the
// delegating step, pairs intact, at every step and after a resume; without it
// only the task.
func TestRow08_ShareContext(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]bool{"shared": true, "not shared": false} {
		t.Run(name, func(t *testing.T) {
			s := stack(t)
			s.Model.KeepBodies = true
			s.StartWorker("SPOOL_MAX_EVENTS=10")
			s.Ask("s1", script.Script(add(20, 22), "say earlier turn"))
			child := script.Script(add(1, 1), add(2, 2), "say child end")
			r := s.Ask("s1", script.Script(add(3, 4),
				script.Call("assign_task", map[string]any{"agent": "general", "task": child, "shareContext": share}), add(5, 5), "say root end"))
			require.Equal(t, "root end", r.Response, r.Error)
			own := "user assistant tool assistant tool"
			seen := asked(t, s, strings.TrimPrefix(child, "script: "))
			th := tree(t, s, r.ThreadID)[1]
			if !share {
				require.Equal(t, "system "+own, shape(seen))
				require.Zero(t, th.Config.SharedSeq)
				return
			}
			parent := "user assistant tool assistant user assistant tool"
			require.Equal(t, "system "+parent+" "+own, shape(seen))
			require.Contains(t, seen[3].Content.String(), "42")
			require.Contains(t, seen[7].Content.String(), "7")
			require.Equal(t, child, seen[8].Content.String())
			require.Equal(t, int64(7), th.Config.SharedSeq)
			require.Equal(t, "user assistant tool assistant tool assistant", roles(messages(t, s, th.ID)), "its thread holds its own messages only")

			s.Ask("s1", script.Script(resume("general", th.ID, "script: say resumed child"), "say z"))
			seen = asked(t, s, "say resumed child")
			require.Equal(t, "system "+parent+" "+own+" assistant user", shape(seen))
		})
	}
}

// Row 8: a grandchild that shares its parent's context is given what that one
// was given, too.
func TestRow08_SharedThroughTwoLevels(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	sharing := func(task string) string {
		return script.Call("assign_task", map[string]any{"agent": "general", "task": task, "shareContext": true})
	}
	r := s.Ask("s1", script.Script(add(20, 22), sharing(script.Script(add(30, 33), sharing("script: say deepest"), "say b")), "say c"))
	require.Equal(t, "c", r.Response, r.Error)
	seen := asked(t, s, "say deepest")
	require.Equal(t, "system user assistant tool user assistant tool user", shape(seen))
	require.Contains(t, seen[3].Content.String(), "42")
	require.Contains(t, seen[6].Content.String(), "63")
}
