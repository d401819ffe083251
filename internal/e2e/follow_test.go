package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// witness is what one follower has seen in all its lives. Its fields are checked
// when all is over.
type witness struct {
	cursor string
	lives  int
	all    []spool.Update
}

// check holds that the updates are the thread's log, each event once and in order,
// and that text goes on where it ended, comes before the event that ends its
// stream, and is marked as void when a new attempt begins. It returns how many
// pieces of text and how many void attempts were seen.
func (w *witness) check(t *testing.T, s *tt.Stack, threadID string) (pieces, void int) {
	t.Helper()
	type shown struct {
		attempt         int
		text, reasoning string
		over            bool
	}
	said := map[string]*shown{}
	var told []agent.Event
	for _, u := range w.all {
		if x := u.Text; x != nil {
			pieces++
			m := said[x.MessageID]
			if m == nil {
				m = &shown{attempt: x.Attempt}
				said[x.MessageID] = m
			}
			require.False(t, m.over, "text of %s after the end of its stream", x.MessageID)
			if m.attempt != x.Attempt {
				require.Equal(t, m.attempt, x.Supersedes, "the text of the attempt before is marked as void")
				*m = shown{attempt: x.Attempt}
				void++
			}
			require.Len(t, m.text, x.Offset, "text goes on where it ended")
			require.Len(t, m.reasoning, x.ReasoningOffset)
			m.text, m.reasoning = m.text+x.Text, m.reasoning+x.Reasoning
			continue
		}
		told = append(told, *u.Event)
		var d struct {
			MessageID string `json:"messageId"`
		}
		require.NoError(t, json.Unmarshal(u.Event.Data, &d))
		if m := said[d.MessageID]; m != nil && u.Event.Type == agent.EventStreamFinish {
			m.over = true
		}
		for _, saved := range u.Messages {
			if m := said[saved.ID]; m != nil {
				require.Equal(t, saved.Content.String(), m.text, "what was shown is what is saved")
				m.over = true
			}
		}
	}
	log := events(t, s, threadID)
	require.Len(t, told, len(log))
	for i := range log {
		require.Equal(t, log[i].Seq, told[i].Seq)
		require.Equal(t, log[i].Type, told[i].Type)
		require.JSONEq(t, string(log[i].Data), string(told[i].Data))
	}
	return pieces, void
}

// attach follows by the Go client, cut off and resumed from the last cursor at
// random points, until a turn's end was told.
func (w *witness) attach(ctx context.Context, c *spool.Client, rng *rand.Rand, threadID, turnID string) error {
	cut := errors.New("cut")
	for {
		w.lives++
		left := 1 + rng.Intn(25)
		err := c.Follow(ctx, threadID, w.cursor, spool.FollowOptions{UntilTurn: turnID}, func(u spool.Update) error {
			w.all, w.cursor = append(w.all, u), u.Cursor
			if left--; left == 0 && !(u.Event != nil && u.Event.TurnID == turnID && u.Event.Type == agent.EventDone) {
				return cut
			}
			return nil
		})
		if !errors.Is(err, cut) {
			return err
		}
	}
}

// show follows by processes of the starter, each killed with SIGKILL after some
// time, and the next one started from the last cursor that was printed, until one
// ends by itself: the thread is idle.
func (w *witness) show(t *testing.T, s *tt.Stack, rng *rand.Rand, threadID string) error {
	for {
		w.lives++
		args := []string{"show", threadID, "--follow", "--json"}
		if w.cursor != "" {
			args = append(args, "--from", w.cursor)
		}
		cmd := starterCommand(t, s, args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		killed := time.AfterFunc(tt.Patience, func() { _ = cmd.Process.Kill() })
		for r, first := bufio.NewReader(out), true; ; first = false {
			line, err := r.ReadString('\n')
			if err != nil { // a line without an end was not printed
				break
			}
			if first {
				killed.Reset(time.Duration(300+rng.Intn(1200)) * time.Millisecond)
			}
			var u spool.Update
			if err := json.Unmarshal([]byte(line), &u); err != nil {
				return err
			}
			w.all, w.cursor = append(w.all, u), u.Cursor
		}
		err = cmd.Wait()
		if killed.Stop() {
			return err
		}
	}
}

// D12, F1: two followers, one by the Go client and one by `show --follow --from`,
// see a thread whose turn continues as new several times, whose worker and Temporal
// server are killed with SIGKILL, whose model breaks off, and who are cut off
// and killed themselves: together with what they saw before, each sees the
// whole log exactly once.
func TestFault_F1_FollowersThroughDeaths(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewSource(tt.Seed(t)))
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	env := []string{"SPOOL_MAX_EVENTS=10"}
	w := s.StartWorker(env...)
	words := strings.TrimSpace(strings.Repeat("word ", 30))
	r := s.Send("s1", script.Script(
		"think "+words+" => slow 20ms "+add(1, 2), add(3, 4), "think "+words+" => slow 20ms "+add(5, 6), add(7, 8),
		"slow 20ms break x1 say "+words+" end"))
	last := s.Send("s1", script.Script(add(9, 9), "slow 20ms say "+words))

	var by, printed witness
	var following sync.WaitGroup
	var errs [2]error
	seeds := []int64{rng.Int63(), rng.Int63()}
	ctx, stop := context.WithTimeout(s.Ctx(), tt.Patience)
	defer stop()
	following.Go(func() {
		errs[0] = by.attach(ctx, s.Client, rand.New(rand.NewSource(seeds[0])), r.ThreadID, last.TurnID)
	})
	following.Go(func() { errs[1] = printed.show(t, s, rand.New(rand.NewSource(seeds[1])), r.ThreadID) })

	streaming(t, s, r.ThreadID)
	w.Kill()
	w = s.StartWorker(env...)
	tt.Eventually(t, "the second round", func() bool { return len(messages(t, s, r.ThreadID)) >= 5 })
	server.Kill()
	time.Sleep(time.Duration(rng.Intn(500)) * time.Millisecond)
	server.Restart(t)
	tt.Eventually(t, "the answer streams", func() bool {
		st, err := s.Store.Stream(s.Ctx(), r.ThreadID)
		return err == nil && st != nil && st.Text != "" && !st.Stored
	})
	w.Kill()
	s.StartWorker(env...)
	require.Equal(t, words+" end", s.Wait(r).Response)
	require.Equal(t, words, s.Wait(last).Response)
	following.Wait()
	require.NoError(t, errors.Join(errs[:]...))

	pieces, void := by.check(t, s, r.ThreadID)
	require.Greater(t, pieces, 20)
	require.NotZero(t, void, "an attempt failed after some of its text was seen")
	require.Greater(t, by.lives, 3)
	pieces, void = printed.check(t, s, r.ThreadID)
	t.Logf("the starter's %d lives: %d pieces of text, %d void attempts", printed.lives, pieces, void)
	require.Greater(t, printed.lives, 3)
	runs, err := s.Client.Runs(s.Ctx(), r.ThreadID)
	require.NoError(t, err)
	require.Greater(t, len(runs), 4, "the turn continued as new")
	s.Verify()
}
