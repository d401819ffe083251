package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// treeScript is a conversation that passes every save point: a tool round, two
// sub-agents at once, one of which delegates further, and an answer. Its tools
// are repeatable, so a run with kills must end as one without.
func treeScript() string {
	grandchild := script.Script(add(20, 22), "echo grandchild:")
	child := script.Script(add(1, 1), script.Task("researcher", grandchild), "echo child:")
	return script.Script("slow 20ms "+add(2, 3)+" && "+add(3, 4),
		script.Calls(script.Task("general", child), script.Task("researcher", script.Script(add(5, 5), "echo other:"))),
		"slow 20ms echo root:")
}

// converse sends the two messages of the crash scenario, the second while the
// first may still run, and waits for both.
func converse(t *testing.T, s *tt.Stack) string {
	t.Helper()
	first, second := s.Message("session", treeScript()), s.Message("session", script.Script(add(8, 8), "say bye"))
	first.MessageID, second.MessageID = "first", "second"
	a := send(t, s, first)
	b := send(t, s, second)
	require.Equal(t, "completed", s.Wait(a).Status, s.Wait(a).Error)
	require.Equal(t, "bye", s.Wait(b).Response)
	return a.ThreadID
}

// undisturbed is the outcome of the scenario in a run without faults, made once.
var undisturbed = struct {
	sync.Once
	snapshot string
}{}

func undisturbedSnapshot(t *testing.T) string {
	t.Helper()
	undisturbed.Do(func() {
		s := tt.New(t)
		s.StartWorker()
		undisturbed.snapshot = snapshot(t, s, converse(t, s))
		s.Verify()
	})
	require.NotEmpty(t, undisturbed.snapshot)
	return undisturbed.snapshot
}

// Rows 48, 55, 59, 61, 62, 65, 67, 103 and C3, C5, C6, D9, D10, E6: the worker is
// killed at each named point of the store's operations; another goes on; the
// messages, links and states are those of a run without kills.
func TestRow55_CrashPoints(t *testing.T) {
	t.Parallel()
	want := undisturbedSnapshot(t)
	for _, points := range crashes(strings.HasPrefix(t.Name(), "TestOnPostgres")) {
		t.Run(strings.Join(points, ","), func(t *testing.T) {
			s := stack(t)
			all := dieAt(t, s, points...)
			root := converse(t, s)
			all()
			require.Equal(t, want, snapshot(t, s, root))
		})
	}
}

// crashes are the points at which workers are killed, those of one conversation
// together; a sample of them if not all is asked for. After five kills a turn ends.
func crashes(sample bool) (groups [][]string) {
	if !tt.All() {
		for _, when := range []string{"before", "after"} {
			for i, ops := range [][]string{{"begin-tool", "result", "open-delegation", "round"}, {"claim", "begin-model", "chunk", "reply"}, {"child-result", "close"}} {
				if sample && i > 0 {
					continue
				}
				var points []string
				for _, op := range ops {
					points = append(points, when+"-"+op)
				}
				groups = append(groups, points)
			}
		}
		return groups
	}
	for _, op := range []string{"claim", "begin-model", "chunk", "reply", "begin-tool", "result", "round", "open-delegation", "child-result", "close"} {
		for _, n := range hits(op) {
			groups = append(groups, []string{fmt.Sprintf("before-%s:%d", op, n)}, []string{fmt.Sprintf("after-%s:%d", op, n)})
		}
	}
	return groups
}

// hits says at which hits of a crash point a worker is killed.
func hits(op string) []int {
	switch op {
	case "claim", "close", "open-delegation", "child-result":
		return []int{1, 3}
	}
	if tt.Long() {
		return []int{1, 2, 3, 4, 5}
	}
	return []int{2}
}

// dieAt starts a worker that dies at the first point, then one that dies at the
// second, and so on, and then one that does not. What it returns waits until all
// are dead that are to die.
func dieAt(t *testing.T, s *tt.Stack, points ...string) (wait func()) {
	t.Helper()
	next := make(chan *tt.Process, len(points))
	start := func(i int) {
		next <- s.StartWorker("SPOOL_CRASH_AT="+points[i], fmt.Sprintf("SPOOL_CRASH_ONCE=%s/crashed%d", s.Dir, i))
	}
	start(0)
	over := make(chan bool)
	go func() {
		defer close(over)
		for i := range points {
			select {
			case <-(<-next).Done():
			case <-t.Context().Done():
				return
			}
			if i+1 < len(points) {
				start(i + 1)
			} else {
				s.StartWorker()
			}
		}
	}()
	return func() {
		t.Helper()
		select {
		case <-over:
		case <-time.After(tt.Patience):
			t.Fatalf("not all workers that were to die are dead: %v", points)
		}
	}
}

// Row 59: a sender that dies right after its message was stored, before anybody
// was told, loses nothing: the sweep finds it.
func TestRow59_SenderDiesBeforeTheNudge(t *testing.T) {
	s := stack(t)
	cmd := starterCommand(t, s, "send", "-s", s.Session("s1"), "--message-id", "m1", "script: say found")
	cmd.Env = append(cmd.Env, "SPOOL_CRASH_AT=after-send")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "the sender was to die: %s", out)
	entries, err := s.Store.Inbox(s.Ctx(), s.Thread("s1"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, memory.EntryWaiting, entries[0].State)
	s.StartWorker()
	tt.Eventually(t, "the sweep finds the message", func() bool {
		ts := turns(t, s, s.Thread("s1"))
		return len(ts) == 1 && ts[0].Answer == "found"
	})
	require.Equal(t, "user assistant", roles(messages(t, s, s.Thread("s1"))))
}
