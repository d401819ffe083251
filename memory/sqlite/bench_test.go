package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/sqlite"
)

// meter keeps the times of each operation by name.
type meter struct {
	b     *testing.B
	spent map[string][]time.Duration
}

func (m *meter) do(name string, f func() error) {
	start := time.Now()
	if err := f(); err != nil {
		m.b.Fatalf("%s: %v", name, err)
	}
	m.spent[name] = append(m.spent[name], time.Since(start))
}

// BenchmarkStep measures the writes of a step with one tool call and a result
// of 5 KB: the median of each operation by name, on a file on disk.
func BenchmarkStep(b *testing.B) {
	for _, kind := range []agent.ThreadKind{agent.KindMain, agent.KindSubAgent} {
		b.Run(string(kind), func(b *testing.B) { benchmarkStep(b, kind) })
	}
}

func benchmarkStep(b *testing.B, kind agent.ThreadKind) {
	ctx := b.Context()
	s, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "spool.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := &meter{b: b, spent: map[string][]time.Duration{}}
	thread, turn := openTurn(ctx, b, s, m, kind)
	text := strings.Repeat("0123456789", 512)
	step := 0
	b.ResetTimer()
	for b.Loop() {
		step++
		benchStep(ctx, s, m, thread, turn, step, text)
	}
	b.StopTimer()
	for name, d := range m.spent {
		b.ReportMetric(float64(median(d).Microseconds()), "µs/"+name)
	}
}

func openTurn(ctx context.Context, b *testing.B, s *sqlite.Store, m *meter, kind agent.ThreadKind) (string, string) {
	b.Helper()
	var sent memory.SendResult
	m.do("send", func() (err error) {
		sent, err = s.Send(ctx, memory.SendRequest{UserID: "u", SessionID: "s", MessageID: "m1", Content: agent.Text("go")})
		return err
	})
	config := agent.SpecialistAgentConfig{Name: "general", SystemPrompt: strings.Repeat("You are careful. ", 400), Tools: []string{"lookup"}}
	m.do("claim", func() error {
		_, err := s.TakeNext(ctx, memory.TakeRequest{ThreadID: sent.ThreadID, RunID: "r", Config: &config})
		return err
	})
	if kind == agent.KindMain {
		return sent.ThreadID, sent.TurnID
	}
	start, err := s.BeginModel(ctx, memory.ModelBegin{ThreadID: sent.ThreadID, TurnID: sent.TurnID, Step: 1})
	if err != nil {
		b.Fatal(err)
	}
	stored, err := s.SaveReply(ctx, memory.ReplyRecord{
		ThreadID: sent.ThreadID, TurnID: sent.TurnID, Step: 1, Attempt: start.Attempt, Delegations: []bool{true},
		Reply: agent.ModelReply{Calls: []agent.Call{agent.NewCall("", agent.ToolAssignTask, `{"agent":"general"}`)}},
	})
	if err != nil {
		b.Fatal(err)
	}
	var d memory.Delegation
	m.do("open-delegation", func() (err error) {
		d, err = s.OpenDelegation(ctx, memory.DelegationRequest{
			ThreadID: sent.ThreadID, TurnID: sent.TurnID, CallID: stored.Calls[0].ID, Config: config, Task: "work",
			Limits: memory.DelegationLimits{MaxDepth: 3, MaxFanOut: 8, MaxDescendants: 100},
		})
		return err
	})
	if _, err := s.TakeNext(ctx, memory.TakeRequest{ThreadID: d.ChildThread, RunID: "c"}); err != nil {
		b.Fatal(err)
	}
	return d.ChildThread, d.ChildTurn
}

func benchStep(ctx context.Context, s *sqlite.Store, m *meter, thread, turn string, step int, text string) {
	fence := memory.Fence{Scope: fmt.Sprint("run/", step), Number: 1}
	var start memory.ModelStart
	m.do("begin-model", func() (err error) {
		start, err = s.BeginModel(ctx, memory.ModelBegin{ThreadID: thread, TurnID: turn, Step: step, Fence: fence})
		return err
	})
	m.do("chunk", func() error {
		return s.AppendChunk(ctx, memory.Chunk{ThreadID: thread, TurnID: turn, Step: step, Attempt: start.Attempt, Text: "some text"})
	})
	var stored memory.StoredReply
	m.do("reply", func() (err error) {
		stored, err = s.SaveReply(ctx, memory.ReplyRecord{
			ThreadID: thread, TurnID: turn, Step: step, Attempt: start.Attempt,
			Reply: agent.ModelReply{Content: "some text", Calls: []agent.Call{agent.NewCall("", "lookup", `{"q":"x"}`)}, Usage: agent.Usage{PromptTokens: 10}},
		})
		return err
	})
	call := stored.Calls[0].ID
	m.do("begin-tool", func() error {
		_, err := s.BeginTool(ctx, memory.ToolBegin{ThreadID: thread, TurnID: turn, CallID: call, Fence: fence})
		return err
	})
	m.do("result", func() error {
		return s.SaveResult(ctx, memory.ToolOutcome{ThreadID: thread, TurnID: turn, CallID: call, Attempt: 1, Result: agent.ToolOK(text)})
	})
	m.do("round", func() error {
		_, err := s.SaveToolRound(ctx, memory.RoundRequest{ThreadID: thread, TurnID: turn, Step: step})
		return err
	})
	m.do("messages", func() error {
		_, err := s.Messages(ctx, thread, int64(step*2-2), 0)
		return err
	})
	m.do("changed", func() error {
		_, err := s.Changed(ctx)
		return err
	})
}
