package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// forest is a conversation of a root, three children and six grandchildren,
// foreground and background mixed, with repeatable tools in each. The background
// grandchild of the last child outlives it.
func forest() string {
	read := `call file_read {"path":"notes.txt"}`
	leaf := func(n int, pause string) string {
		return script.Script("first 100ms "+script.Calls(add(n, 1), read), "first "+pause+" "+add(n, 2), fmt.Sprintf("slow 30ms say leaf %d has come to its end", n))
	}
	child := func(n int, then string) string {
		return script.Script("first 100ms "+add(n, n),
			script.Calls(script.Task("researcher", leaf(10*n+1, "200ms")), background("general", leaf(10*n+2, "600ms")), add(n, 3)),
			then, script.Calls(read, add(n, 4)), fmt.Sprintf("slow 30ms say child %d has come to its end", n))
	}
	wait := taskOutput("", 5*time.Minute)
	return script.Script(script.Calls(add(1, 1), read),
		script.Calls(script.Task("general", child(1, wait)), script.Task("general", child(2, wait)), background("general", child(3, add(3, 5)))),
		"first 200ms "+add(1, 2), wait, script.Calls(add(1, 3), add(1, 4)), "slow 30ms say the root has come to its end")
}

// grow sends the conversation and waits until everything is at rest. during is
// called when it has begun.
func grow(t *testing.T, s *tt.Stack, during func()) string {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "notes.txt"), []byte("remember the milk\n"), 0o644))
	m := s.Message("forest", forest())
	m.MessageID = "forest"
	r := send(t, s, m)
	during()
	end := s.Wait(r)
	require.Equal(t, "completed", end.Status, end.Error)
	require.Equal(t, "the root has come to its end", end.Response)
	quiet(t, s, r.ThreadID)
	return r.ThreadID
}

// reportsElsewhere matches what depends on whether a background agent or the one
// that started it ended first: then the nearest ancestor at work is told.
var reportsElsewhere = regexp.MustCompile(`started by: \S+\n|\n\d+ sub-agents? of those, reporting to this thread(?s:.*)`)

// snapshot is all that must be the same in every run: the rows without times,
// usage and attempts. When the end of a background child is told depends on
// what is quicker, so such messages, and turns that only tell of them, stand
// apart: each end once, wherever in the tree.
func snapshot(t *testing.T, s *tt.Stack, root string) string {
	t.Helper()
	var b strings.Builder
	var told, unsorted []string
	for _, th := range tree(t, s, root) {
		fmt.Fprintf(&b, "thread %s kind=%s depth=%d parent=%s root=%s call=%s status=%s reason=%s\n",
			th.ID, th.Kind, th.Depth, th.ParentThreadID, th.RootThreadID, th.ParentToolCallID, th.Status, th.Reason)
		telling := map[string]bool{}
		for _, turn := range turns(t, s, th.ID) {
			if turn.EntryKind == memory.EntryChild {
				telling[turn.ID] = true
				continue
			}
			fmt.Fprintf(&b, "  turn %s %s %s\n", turn.ID, turn.State, turn.Outcome)
		}
		for _, m := range messages(t, s, th.ID) {
			text := reportsElsewhere.ReplaceAllString(durations.ReplaceAllString(m.Content.String(), ""), "")
			switch {
			case m.Role == agent.RoleUser && strings.HasPrefix(m.Source, "agent:agent:") && strings.HasPrefix(text, "[Background"):
				told = append(told, fmt.Sprintf("told of %s %q\n", m.Source, text))
			case !telling[m.TurnID]:
				calls, err := json.Marshal(m.ToolCalls)
				require.NoError(t, err)
				fmt.Fprintf(&b, "  message %s %s %q calls=%s for=%s partial=%v %s %s\n", m.Role, m.ID, text, calls, m.ToolCallID, m.Partial, m.Status, m.Source)
			}
		}
		position := map[string]int{} // of tasks: that of their calls
		for i, c := range callsOf(t, s, th.ID) {
			position[agent.TaskID(c.ID)] = i
			fmt.Fprintf(&b, "  call %s %s %s sub=%s\n", c.ID, c.ToolName, c.Status, c.SubAgentThreadID)
		}
		tasks := tasksOf(t, s, th.ID)
		slices.SortFunc(tasks, func(a, b agent.Task) int { return position[a.ID] - position[b.ID] })
		for _, k := range tasks {
			fmt.Fprintf(&b, "  task %s %s %s sub=%s\n", k.ID, k.Name, k.Status, k.SubAgentID)
		}
		for _, e := range events(t, s, th.ID) {
			if e.Type == agent.EventMemoryAppended || telling[e.TurnID] && e.Type != agent.EventSubAgentCompleted {
				continue
			}
			var d struct {
				Call  string `json:"toolCallId"`
				Child string `json:"sub_agent_thread_id"`
				Agent string `json:"agentId"`
				Code  string `json:"code"`
			}
			require.NoError(t, json.Unmarshal(e.Data, &d))
			if e.Type == agent.EventWarning && d.Code == agent.WarnWorkerLost {
				continue // tells of the disturbance itself
			}
			unsorted = append(unsorted, fmt.Sprintf("event of %s: %s %s %s %s\n", th.ID, e.Type, d.Call, d.Child, d.Agent))
		}
	}
	// Ids are numbered in the order of the rows above; only then what has no
	// order of its own can be sorted.
	const mark = "\x00"
	rows := shortIDs(strings.ReplaceAll(b.String()+mark+strings.Join(append(told, unsorted...), mark), s.Store.ID(), "STORE"))
	head, tail, _ := strings.Cut(rows, mark)
	rest := strings.Split(tail, mark)
	slices.Sort(rest)
	return head + strings.Join(rest, "")
}

// Rows 103, 55 and the whole of E: a tree of ten agents is disturbed at a random
// moment by a kill -9, or a stop and a late wake-up, of a worker, both workers,
// the server, or a worker and the server. The final rows are those of an
// undisturbed run. SPOOL_SEED=N repeats the run of that seed as the first one.
func TestRow103_TreeChaos(t *testing.T) {
	t.Parallel()
	runs := 2
	switch {
	case tt.Long():
		runs = 100
	case tt.All():
		runs = 10
	}
	s := tt.New(t)
	s.StartWorker()
	s.StartWorker()
	begun := time.Now()
	root := grow(t, s, func() {})
	took := time.Since(begun)
	want := snapshot(t, s, root)
	require.Len(t, tree(t, s, root), 10)
	require.Equal(t, 4, strings.Count(want, "ended: success]"))
	s.Verify()
	seed := tt.Seed(t)
	t.Logf("undisturbed it takes %s", took)
	for i := range runs {
		t.Run(fmt.Sprintf("run%d", i), func(t *testing.T) {
			t.Parallel()
			disturbedRun(t, seed+int64(i), took, want)
		})
	}
}

func disturbedRun(t *testing.T, seed int64, took time.Duration, want string) {
	t.Helper()
	rng := rand.New(rand.NewSource(seed))
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	workers := []*tt.Process{s.StartWorker(), s.StartWorker()}
	at := time.Duration(rng.Int63n(int64(took)))
	later := time.Duration(rng.Int63n(int64(time.Second)))
	stop := rng.Intn(2) == 0
	if stop {
		later = 3*time.Second + time.Duration(rng.Int63n(int64(4*time.Second))) // longer than the heartbeat timeout
	}
	victims := [][]int{{0}, {1}, {2}, {0, 1}, {rng.Intn(2), 2}}[rng.Intn(5)] // 2 is the server
	t.Logf("SPOOL_SEED=%d: after %s, stop=%v for %s, victims %v (2 is the server)", seed, at, stop, later, victims)
	root := grow(t, s, func() {
		time.Sleep(at)
		for _, v := range victims {
			p := server.Process
			if v < 2 {
				p = workers[v]
			}
			if stop {
				p.Signal(syscall.SIGSTOP)
			} else {
				p.Kill()
			}
		}
		time.Sleep(later)
		for _, v := range victims {
			switch {
			case stop && v < 2:
				workers[v].Signal(syscall.SIGCONT)
			case stop:
				server.Signal(syscall.SIGCONT)
			case v < 2:
				s.StartWorker()
			default:
				server.Restart(t)
			}
		}
	})
	require.Equal(t, want, snapshot(t, s, root), "SPOOL_SEED=%d", seed)
	s.Verify()
}
