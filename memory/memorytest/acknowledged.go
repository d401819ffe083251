package memorytest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/verify"
)

// telling prints what its caller is told to be safe, and what it is told to do.
type telling struct{ memory.ConversationMemoryStore }

func tell[T any](v T, err error, words ...any) (T, error) {
	if err == nil {
		fmt.Println(words...)
	}
	return v, err
}

func (s telling) Send(ctx context.Context, r memory.SendRequest) (memory.SendResult, error) {
	res, err := s.ConversationMemoryStore.Send(ctx, r)
	return tell(res, err, "sent", res.ThreadID, res.MessageID)
}

func (s telling) BeginModel(ctx context.Context, r memory.ModelBegin) (memory.ModelStart, error) {
	res, err := s.ConversationMemoryStore.BeginModel(ctx, r)
	if res.Stored != nil {
		return res, err
	}
	return tell(res, err, "ask", r.TurnID, r.Step)
}

func (s telling) SaveReply(ctx context.Context, r memory.ReplyRecord) (memory.StoredReply, error) {
	res, err := s.ConversationMemoryStore.SaveReply(ctx, r)
	return tell(res, err, "replied", r.TurnID, r.Step)
}

func (s telling) BeginTool(ctx context.Context, r memory.ToolBegin) (memory.ToolStart, error) {
	res, err := s.ConversationMemoryStore.BeginTool(ctx, r)
	if res.Final {
		return res, err
	}
	return tell(res, err, "run", r.TurnID, r.CallID)
}

func (s telling) SaveResult(ctx context.Context, r memory.ToolOutcome) error {
	_, err := tell(struct{}{}, s.ConversationMemoryStore.SaveResult(ctx, r), "ran", r.TurnID, r.CallID)
	return err
}

func (s telling) SaveToolRound(ctx context.Context, r memory.RoundRequest) (memory.RoundSaved, error) {
	res, err := s.ConversationMemoryStore.SaveToolRound(ctx, r)
	return tell(res, err, "saved", r.TurnID, r.Step)
}

func (s telling) CloseTurn(ctx context.Context, r memory.CloseRequest) (memory.Closed, error) {
	res, err := s.ConversationMemoryStore.CloseTurn(ctx, r)
	return tell(res, err, "closed", r.TurnID)
}

// Acknowledged is what processes with the job "turns" were told to be safe.
type Acknowledged struct {
	// Writes counts what was acknowledged.
	Writes int
	is     map[string]bool // by line
	lines  []string
}

// Add notes a process's output. A model that is asked again for a reply that was
// acknowledged, or a tool that is run again, is an error.
func (a *Acknowledged) Add(t testing.TB, lines []string) {
	t.Helper()
	if a.is == nil {
		a.is = map[string]bool{}
	}
	for _, line := range lines {
		what, rest, _ := strings.Cut(line, " ")
		switch {
		case what == "ask" && a.is["replied "+rest]:
			t.Errorf("the model was asked again for %s, though its reply was acknowledged", rest)
		case what == "run" && a.is["ran "+rest]:
			t.Errorf("call %s was run again, though its result was acknowledged", rest)
		case what == "ask" || what == "run" || a.is[line]:
		default:
			a.is[line] = true
			a.lines = append(a.lines, line)
			a.Writes++
		}
	}
}

// Check looks for all of it, and checks every rule on every thread.
func (a *Acknowledged) Check(t testing.TB, s verify.Store) {
	t.Helper()
	entries := map[string]map[string]int{}
	for _, line := range a.lines {
		if err := a.look(t.Context(), s, line, entries); err != nil {
			t.Errorf("%q was acknowledged, but: %v", line, err)
		}
	}
	Sound(t, s)
}

func (a *Acknowledged) look(ctx context.Context, s memory.Reader, line string, entries map[string]map[string]int) error {
	f := strings.Fields(line)
	switch f[0] {
	case "sent":
		if entries[f[1]] == nil {
			all, err := s.Inbox(ctx, f[1])
			if err != nil {
				return err
			}
			entries[f[1]] = map[string]int{}
			for _, e := range all {
				entries[f[1]][e.ID]++
			}
		}
		return want("number of entries", entries[f[1]][f[2]], 1)
	case "replied", "saved":
		steps, err := s.Steps(ctx, f[1])
		if err != nil {
			return err
		}
		for _, st := range steps {
			if fmt.Sprint(st.Step) == f[2] {
				return want("stored, saved", [2]bool{st.Stored, st.Saved || f[0] == "replied"}, [2]bool{true, true})
			}
		}
		return fmt.Errorf("no such step of %d", len(steps))
	case "ran":
		call, err := s.ToolCall(ctx, f[2])
		if err != nil {
			return err
		}
		return want("status", call.Status, agent.CallSuccess)
	case "closed":
		turn, err := s.Turn(ctx, f[1])
		if err != nil {
			return err
		}
		return want("outcome", turn.Outcome, agent.ThreadCompleted)
	}
	return fmt.Errorf("no word of this test")
}

func want[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

// Finish ends what the processes left open, and checks that each message has its
// whole answer, once.
func (a *Acknowledged) Finish(t testing.TB, s memory.ConversationMemoryStore) {
	t.Helper()
	threads, err := s.Threads(t.Context(), memory.ThreadFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range threads {
		if err := RunTurns(t.Context(), s, th.ID); err != nil {
			t.Fatal(err)
		}
		entries, err := s.Inbox(t.Context(), th.ID)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := s.Messages(t.Context(), th.ID, 0, 10*len(entries))
		if err != nil {
			t.Fatal(err)
		}
		var roles strings.Builder
		for _, m := range messages {
			roles.WriteString(string(m.Role)[:1])
		}
		if got, want := roles.String(), strings.Repeat("uatta", len(entries)); got != want {
			t.Errorf("%s: messages %s for %d entries", th.ID, got, len(entries))
		}
	}
	a.Check(t, s)
}

// Sound checks every rule on every thread of a store.
func Sound(t testing.TB, s verify.Store) {
	t.Helper()
	report, err := verify.Check(t.Context(), s, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Error(v)
	}
}
