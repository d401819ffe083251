package e2e

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// Row 94: what becomes of a message that is sent while a turn runs, as
// --when-busy says.
func TestRow94_WhenBusy(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	send := func(code int, session, mode, text string, more ...string) sentDoc {
		t.Helper()
		args := append([]string{"send", "-s", s.Session(session), "--when-busy", mode, text}, more...)
		if code == 4 {
			out, got := starter(t, s, args...)
			require.Equal(t, 4, got, out)
			require.Contains(t, out, "busy")
			return sentDoc{}
		}
		return typed[sentDoc](t, s, code, args...)
	}
	t.Run("queue", func(t *testing.T) {
		r := s.Send("queue", script.Script(until("q"), "say one"))
		started(t, s, "q")
		require.Equal(t, "queued", send(0, "queue", "queue", "script: say two", "--detach").Status)
		letGo(t, s, "q")
		require.Equal(t, "three", send(0, "queue", "queue", "script: say three").Response)
		require.Equal(t, "one", s.Wait(r).Response)
		require.Equal(t, "user assistant tool assistant user assistant user assistant", roles(messages(t, s, r.ThreadID)))
	})
	t.Run("steer", func(t *testing.T) {
		text := script.Script(until("st"), add(1, 2), "say one")
		r := s.Send("steer", text)
		started(t, s, "st")
		go func() { // once the message is there
			for entries := 0; entries == 0 && t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
				waiting, _ := s.Store.Waiting(s.Ctx(), r.ThreadID)
				entries = len(waiting)
			}
			_ = os.WriteFile(filepath.Join(s.Work, "go-st"), nil, 0o600)
		}()
		require.Equal(t, "one", send(0, "steer", "steer", "mind the gap").Response, "it is answered by the turn that took it")
		m := messages(t, s, r.ThreadID)
		require.Equal(t, "user assistant tool user assistant tool assistant", roles(m))
		require.Equal(t, "mind the gap", m[3].Content.String())
		require.Equal(t, "steer", m[3].Source)
		require.Len(t, turns(t, s, r.ThreadID), 1)
		require.Contains(t, shape(asked(t, s, strings.TrimPrefix(text, "script: "))), "tool user assistant tool", "the model saw it before its next call")
	})
	t.Run("steer after the last model call", func(t *testing.T) {
		r := s.Send("late", "script: slow 300ms say "+strings.Repeat("word ", 12)+"end")
		streaming(t, s, r.ThreadID)
		require.Equal(t, "own turn", send(0, "late", "steer", "script: say own turn").Response)
		require.Equal(t, "user assistant user assistant", roles(messages(t, s, r.ThreadID)))
	})
	t.Run("reject", func(t *testing.T) {
		r := s.Send("reject", script.Script(until("r"), "say one"))
		started(t, s, "r")
		send(4, "reject", "reject", "script: say never")
		letGo(t, s, "r")
		require.Equal(t, "one", s.Wait(r).Response)
		require.Equal(t, "now", send(0, "reject", "reject", "script: say now").Response, "an idle thread takes it")
		require.Equal(t, "user assistant tool assistant user assistant", roles(messages(t, s, r.ThreadID)))
	})
	t.Run("reject and steer on an idle thread", func(t *testing.T) {
		require.Equal(t, "a", send(0, "idle", "steer", "script: say a").Response)
		require.Equal(t, "b", send(0, "idle", "reject", "script: say b").Response)
	})
}

// Rows 103, 104, D9: messages are sent in the very moment in which a turn ends, each
// twice, and while runs continue as new at every step, as workers are killed: none is
// lost, none doubled, and what was refused leaves no trace.
func TestFault_D9_MessagesAtTheTurnsEnd(t *testing.T) {
	const threads, senders = 3, 3
	rounds := 6
	switch {
	case tt.Long():
		rounds = 250
	case tt.All():
		rounds = 30
	}
	seed := tt.Seed(t)
	s := stack(t)
	stop := make(chan struct{})
	var killer, people sync.WaitGroup
	killer.Go(func() {
		rng := rand.New(rand.NewSource(seed))
		workers := []*tt.Process{s.StartWorker("SPOOL_MAX_EVENTS=10"), s.StartWorker("SPOOL_MAX_EVENTS=10")}
		for kills := 0; ; kills++ {
			select {
			case <-stop:
				t.Logf("%d kills", kills)
				return
			case <-time.After(time.Second + time.Duration(rng.Int63n(int64(3*time.Second)))):
			}
			victim := rng.Intn(len(workers))
			workers[victim].Kill()
			workers[victim] = s.StartWorker("SPOOL_MAX_EVENTS=10")
		}
	})
	sent := make([]map[string]bool, threads) // by thread: text of a message → it was taken
	var mu sync.Mutex
	for i := range threads {
		sent[i] = map[string]bool{}
		for p := range senders {
			people.Go(func() {
				rng := rand.New(rand.NewSource(seed + int64(10*i+p)))
				for n := range rounds {
					text := script.Script(add(i, n), fmt.Sprintf("say answer %d.%d.%d", i, p, n))
					mode := []memory.WhenBusy{memory.Queue, memory.Queue, memory.Steer, memory.Reject}[rng.Intn(4)]
					if mode == memory.Steer {
						text = fmt.Sprintf("by the way %d.%d.%d", i, p, n)
					}
					m := s.Message(fmt.Sprintf("d9-%d", i), text)
					m.MessageID, m.WhenBusy = fmt.Sprintf("m%d-%d", p, n), mode
					r, err := sendTwice(s, m)
					mu.Lock()
					sent[i][text] = err == nil
					mu.Unlock()
					if err != nil {
						if agent.CodeOf(err) != agent.CodeConflict || mode != memory.Reject {
							t.Errorf("send: %v", err)
						}
						time.Sleep(time.Duration(rng.Intn(20)) * time.Millisecond)
						continue
					}
					// The next message goes out the moment this one's turn is closed.
					if _, err := s.Client.Wait(s.Ctx(), r.ThreadID, r.TurnID, spool.WaitOptions{Patient: true}); err != nil {
						t.Errorf("wait: %v", err)
					}
				}
			})
		}
	}
	people.Wait()
	close(stop)
	killer.Wait()
	for i := range threads {
		id := s.Thread(fmt.Sprintf("d9-%d", i))
		quiet(t, s, id)
		var seen []string
		steered := 0
		answers := map[string]int{}
		for _, m := range messages(t, s, id) {
			switch m.Role {
			case agent.RoleUser:
				seen = append(seen, m.Content.String())
				if m.Source == "steer" {
					steered++
				}
			case agent.RoleAssistant:
				answers[m.Content.String()]++
			}
		}
		var want []string
		for text, taken := range sent[i] {
			if !taken {
				continue
			}
			want = append(want, text)
		}
		slices.Sort(want)
		slices.Sort(seen)
		require.Equal(t, want, seen)
		for text, n := range answers {
			if strings.HasPrefix(text, "answer ") {
				require.Equal(t, 1, n, text)
			}
		}
		require.Len(t, turns(t, s, id), len(want)-steered, "each message has a turn of its own, or was steered into one")
		for _, turn := range turns(t, s, id) {
			require.Equal(t, agent.ThreadCompleted, turn.Outcome, turn.Error)
		}
	}
}

// sendTwice sends a message and, as a client that got no answer does, again.
func sendTwice(s *tt.Stack, m memory.SendRequest) (spool.Reply, error) {
	if r, err := s.Client.Send(s.Ctx(), m); err != nil {
		return r, err
	}
	return s.Client.Send(s.Ctx(), m)
}
