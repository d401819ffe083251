package httpapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// Rows 91, 93, 95, 101: the collections of a user have every task of a chat, at any depth,
// by its text; a sub-agent's messages begin with the system prompt of its snapshot; and
// subAgentId names the thread that has the message or the call.
func (b *bench) tree(chat string) {
	b.t.Helper()
	at := "/api/v1/users/tester/orch-chats/" + id(chat)
	var tasks struct{ Tasks []agent.Task }
	b.get(at + "/tasks?all=true").is(200).into(&tasks)
	require.Len(b.t, tasks.Tasks, 2)
	for _, task := range tasks.Tasks {
		var one agent.Task
		b.get(at + "/tasks/" + task.ID).is(200).into(&one)
		require.Equal(b.t, task, one)
		if task.Type != "agent" {
			continue
		}
		sub := at + "/sub-agents/" + id(task.SubAgentID)
		b.get(sub + "/tasks").is(200)
		var messages struct {
			Messages []struct {
				agent.Message
				UserID string
			}
		}
		b.get(sub + "/messages?limit=1").is(200).into(&messages)
		require.Len(b.t, messages.Messages, 2)
		require.Equal(b.t, []agent.Role{"system", "user"}, []agent.Role{messages.Messages[0].Role, messages.Messages[1].Role})
		for _, m := range messages.Messages {
			require.Equal(b.t, []string{"tester", task.SubAgentID}, []string{m.UserID, m.SubAgentID})
		}
		require.NotEmpty(b.t, messages.Messages[0].Content.String())
		b.get(sub + "/messages?limit=1&after=1").is(200).into(&messages)
		require.NotEqual(b.t, agent.RoleSystem, messages.Messages[0].Role, "once, at the beginning")
	}
	b.get(at+"/tasks/nonsense").fails(404, "not_found")
}

// Rows 18, 91, 93: tasks below the first level are there with their paths while the work
// goes on, the sub-agents at work are listed, and one of them can be stopped alone, in
// the background too.
func TestTasksAtEveryDepth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	leaf := "script: slow 200ms say " + strings.Repeat("word ", 500)
	inner := script.Script(script.Call("assign_task", map[string]any{"agent": "researcher", "task": leaf, "background": true}), script.Call("shell", map[string]any{"command": "sleep 60"}), "say never")
	r := b.say("deep", script.Script(script.Call("assign_task", map[string]any{"agent": "general", "task": inner}), "say the child was stopped"))
	at := "/api/v1/users/tester/orch-chats/" + id(r.ThreadID)
	var tasks struct{ Tasks []agent.Task }
	var running struct{ Threads []agent.Thread }
	tt.Eventually(t, "two levels are at work", func() bool {
		b.get(at + "/tasks?all=true").is(200).into(&tasks)
		b.get("/api/v1/threads?working=true").is(200).into(&running)
		return len(tasks.Tasks) == 2 && tasks.Tasks[1].Status == agent.TaskRunning && len(running.Threads) == 2
	})
	child, grandchild := tasks.Tasks[0], tasks.Tasks[1]
	require.Equal(t, []string{r.ThreadID, child.SubAgentID}, []string{child.ThreadID, grandchild.ThreadID})
	require.Equal(t, []string{inner, leaf}, []string{child.Instruction, grandchild.Instruction})
	b.get(at + "/tasks/" + grandchild.ID).is(200)
	b.get(at + "/sub-agents/" + id(child.SubAgentID) + "/tasks").is(200)
	require.Equal(t, "{\"threads\":[]}\n", b.send(as(b.request(http.MethodGet, "/api/v1/threads?working=true", nil), other)).is(200).body)

	cmd := exec.Command(tt.Starter(), "agents", "--running")
	cmd.Env = append(os.Environ(), b.Env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `(?m)^`+grandchild.SubAgentID+` +researcher +running +`+r.ThreadID+` +script: slow`, string(out))
	require.Contains(t, string(out), child.SubAgentID)

	b.post("/api/v1/threads/"+id(grandchild.SubAgentID)+"/cancel", map[string]any{}).is(200)
	tt.Eventually(t, "the one in the background is stopped", func() bool {
		b.get(at + "/tasks?all=true").is(200).into(&tasks)
		return tasks.Tasks[1].Status == agent.TaskCancelled
	})
	require.Equal(t, agent.TaskRunning, tasks.Tasks[0].Status, "and no other")
	b.post("/api/v1/threads/"+id(child.SubAgentID)+"/cancel", map[string]any{}).is(200)
	require.Equal(t, "the child was stopped", b.ends(r).Response, "its parent goes on")
	b.get("/api/v1/threads?working=true").is(200).into(&running)
	require.Empty(t, running.Threads)
	b.Verify()
}

// A long result is in the log by its beginning and its size, and whole on request.
func TestLongResultsAreToldByTheirBeginning(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	r := b.say("long", script.Script(script.Call("shell", map[string]any{"command": "seq 1 2000"}), "say done"))
	require.Equal(t, "completed", b.ends(r).Status)
	var log struct{ Events []agent.Event }
	b.get("/api/v1/threads/" + id(r.ThreadID) + "/events?limit=100").is(200).into(&log)
	var told struct {
		ToolCallID, ResultRef, Preview string
		Size                           int
	}
	for _, e := range log.Events {
		if e.Type == agent.EventToolResponse {
			require.NoError(t, json.Unmarshal(e.Data, &told))
		}
	}
	whole := b.get("/api/v1/tool-calls/" + told.ToolCallID + "/output").is(200).body
	require.Contains(t, whole, "\n2000")
	require.True(t, strings.HasPrefix(told.Preview, "1\n2\n3\n"), told.Preview)
	require.LessOrEqual(t, len(told.Preview), 2048)
	require.Greater(t, len(told.Preview), 2000)
	require.Equal(t, len(whole), told.Size)
}
