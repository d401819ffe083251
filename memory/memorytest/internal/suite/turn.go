package suite

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Stake prices an attempt at $1 per token of input and $2 of output.
func Stake() *memory.Stake {
	return &memory.Stake{PromptTokens: 100, Price: agent.Price{Input: 1e6, Output: 2e6}}
}

func (e *Env) Staked(t memory.Turn) int {
	a := e.Begin(t, 1)
	c := Chunk(t, 1, a, 0, "half an ")
	c.Stake = Stake()
	e.Ok(e.S.AppendChunk(e.Ctx, c))
	e.Ok(e.S.AppendChunk(e.Ctx, Chunk(t, 1, a, len("half an "), "answer")))
	return a
}

func (e *Env) Spent(id string) memory.Spent { return Must(e.S.Spent(e.Ctx, id))(e) }

func (e *Env) Within(b memory.Budget, t memory.Turn, step int) error {
	r := e.ModelBegin(t, step)
	r.Budget = b
	_, err := e.S.BeginModel(e.Ctx, r)
	return err
}

// Spend makes a whole model call of 15 tokens for $0.25 that takes 20 ms, under a budget.
func (e *Env) Spend(b memory.Budget, t memory.Turn, step int, calls ...agent.Call) memory.StoredReply {
	e.Ok(e.Within(b, t, step))
	return Must(e.S.SaveReply(e.Ctx, Record(t, step, 1, "", calls...)))(e)
}

func (e *Env) Retry(threadID, requestID string) memory.SendResult {
	return Must(e.S.Retry(e.Ctx, memory.RetryRequest{UserID: User, ThreadID: threadID, RequestID: requestID}))(e)
}

func (e *Env) Overdue(age time.Duration) map[string]memory.Overdue {
	out := map[string]memory.Overdue{}
	for _, o := range Must(e.S.Overdue(e.Ctx, age, 100))(e) {
		out[o.ThreadID] = o
	}
	return out
}

func (e *Env) Terminated(t memory.Turn, step int) memory.Closed {
	return e.Close(Failed(t, step, agent.ReasonTerminated))
}

// Attempt begins a model call on a worker process, after what it is told to wait.
func (e *Env) Attempt(t memory.Turn, step int, worker string) error {
	for {
		b := e.ModelBegin(t, step)
		b.Worker = worker
		st, err := e.S.BeginModel(e.Ctx, b)
		if err != nil || st.Wait == 0 {
			return err
		}
		Equal(e, "nothing begun", [2]any{st.Attempt, st.Stored == nil}, [2]any{0, true})
		e.H.Clock.Advance(st.Wait)
	}
}

func Chunk(t memory.Turn, step, attempt, offset int, text string) memory.Chunk {
	return memory.Chunk{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: attempt, Offset: offset, Text: text}
}

func Failure(t memory.Turn, step, attempt int) memory.ModelFailure {
	return memory.ModelFailure{
		ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: attempt, Code: agent.ModelBrokenStream,
		Message: "the stream broke", Usage: agent.Usage{PromptTokens: 10, TotalTokens: 10}, Duration: time.Second,
	}
}

func (e *Env) Stream(threadID string) string {
	s := Must(e.S.Stream(e.Ctx, threadID))(e)
	if s == nil {
		return "<nil>"
	}
	return s.Text
}

func (e *Env) Threads(f memory.ThreadFilter) []string {
	if f.Limit == 0 {
		f.Limit = 100
	}
	var out []string
	for _, th := range Must(e.S.Threads(e.Ctx, f))(e) {
		out = append(out, th.ID)
	}
	return out
}

func (e *Env) Payload(threadID, typ string, keys []string) {
	evs := e.EventsOf(threadID, typ)
	if len(evs) == 0 {
		e.Fatalf("no %s event", typ)
	}
	for _, k := range keys {
		if _, ok := evs[0][k]; !ok {
			e.Errorf("%s has no %s: %v", typ, k, evs[0])
		}
	}
}

func (e *Env) SummaryBegin(t memory.Turn, step, number int) memory.SummaryBegin {
	return memory.SummaryBegin{
		ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Cause: memory.CauseFull, Fence: memory.Fence{Scope: "summary", Number: number},
	}
}

func SummaryRecord(t memory.Turn, step, attempt int, from, to int64, text string) memory.SummaryRecord {
	return memory.SummaryRecord{Attempt: attempt, Duration: time.Second, Summary: memory.Summary{
		ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Cause: memory.CauseFull, ReplacesFrom: from, ReplacesTo: to, Text: text,
		Window: 4096, Model: "m", Usage: agent.Usage{PromptTokens: 30, CompletionTokens: 5, TotalTokens: 35, Price: 0.5, Requests: 1},
	}}
}

// Steered begins a step's model call and tells how many entries it took.
func (e *Env) Steered(t memory.Turn, step int) int {
	return Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, step)))(e).Steered
}

func (e *Env) Last(id string) string {
	ms := e.Messages(id)
	return ms[len(ms)-1].Content.String()
}

func (e *Env) Step(t memory.Turn, step int, result string) {
	e.RunTool(e.Calls(t, step, 1)[0], result)
	e.SaveRound(t, step)
}

func (e *Env) FullRound(t memory.Turn, step, n int) {
	for _, c := range e.Calls(t, step, n) {
		e.RunTool(c, "ok")
	}
	e.SaveRound(t, step)
}

func (e *Env) Summarise(t memory.Turn, step int, from, to int64, text string) memory.Summary {
	start := Must(e.S.BeginSummary(e.Ctx, e.SummaryBegin(t, step, 1)))(e)
	return Must(e.S.SaveSummary(e.Ctx, SummaryRecord(t, step, start.Attempt, from, to, text)))(e)
}

// Answer2 stores a final reply for an attempt that is under way, and closes.
func (e *Env) Answer2(t memory.Turn, step, attempt int, text string) memory.Closed {
	Must(e.S.SaveReply(e.Ctx, Record(t, step, attempt, text)))(e)
	return e.Close(Completed(t, step))
}

// StaleTurn tries every kind of write for a turn that is not open.
func (e *Env) StaleTurn(t memory.Turn, attempt int) {
	call := agent.CallID(t.ID, 1, 0)
	e.Unchanged(t.ThreadID, func() {
		Fails(e.S.BeginModel(e.Ctx, e.ModelBegin(t, 2)))(e, agent.CodeStale)
		e.Stale(e.S.AppendChunk(e.Ctx, Chunk(t, 1, attempt, 0, "late")))
		e.Stale(e.S.FailModel(e.Ctx, Failure(t, 1, attempt)))
		Fails(e.S.SaveReply(e.Ctx, Record(t, 1, attempt, "late")))(e, agent.CodeStale)
		Fails(e.S.SaveToolRound(e.Ctx, Round(t, 2)))(e, agent.CodeStale, agent.CodeNotFound)
		Fails(e.S.OpenApproval(e.Ctx, Round(t, 2)))(e, agent.CodeStale, agent.CodeNotFound)
		Fails(e.S.BeginTool(e.Ctx, memory.ToolBegin{ThreadID: t.ThreadID, TurnID: t.ID, CallID: call, Fence: e.Fence(), Repeatable: true}))(e, agent.CodeStale, agent.CodeNotFound)
	})
}

func (e *Env) Waits(f memory.WaitFilter) []agent.ModelWait { return Must(e.S.ModelWaits(e.Ctx, f))(e) }

func (e *Env) ToldWaits(threadID string) (told []agent.ModelWait) {
	for _, ev := range e.Events(threadID) {
		var w agent.Warning
		if ev.Type == agent.EventWarning && json.Unmarshal(ev.Data, &w) == nil && w.Wait != nil {
			Equal(e, "code", w.Code, agent.WarnModelWait)
			told = append(told, *w.Wait)
		}
	}
	return told
}

// ToldLost are the losses of workers in a thread's log.
func (e *Env) ToldLost(threadID string) (told []string) {
	for _, ev := range e.Events(threadID) {
		var w agent.Warning
		if ev.Type == agent.EventWarning && json.Unmarshal(ev.Data, &w) == nil && w.Code == agent.WarnWorkerLost {
			if w.ToolCallID != "" {
				w.Message = w.ToolCallID + ": " + w.Message
			}
			told = append(told, w.Message)
		}
	}
	return told
}

// Held fails the current attempt of a step, whose call is to be made again.
func (e *Env) Held(t memory.Turn, attempt int, after time.Duration, notCalled bool) agent.ModelWait {
	f := Failure(t, 1, attempt)
	f.NotCalled = notCalled
	f.Wait = agent.NewModelWait(&agent.ModelError{Code: agent.ModelOverloaded, Message: "busy", NotCalled: notCalled}, attempt+1, e.H.Clock.Now().Add(after))
	e.Ok(e.S.FailModel(e.Ctx, f))
	e.Unchanged(t.ThreadID, func() { e.Ok(e.S.FailModel(e.Ctx, f)) })
	return *f.Wait
}

func (e *Env) Waited(t memory.Turn) memory.Waited { return Must(e.S.Waited(e.Ctx, t.ID))(e) }

// Windows checks that readings of a part of a thread are parts of the whole.
func (e *Env) Windows(threadID string) {
	calls := Must(e.S.ToolCalls(e.Ctx, threadID))(e)
	tasks := Must(e.S.Tasks(e.Ctx, threadID))(e)
	var ids []string
	for _, c := range slices.Backward(calls) {
		ids = append(ids, c.ID)
	}
	Equal(e, "all calls by id", append([]agent.ToolCall{}, Must(e.S.ToolCallsOf(e.Ctx, threadID, ids))(e)...), append([]agent.ToolCall{}, calls...))
	Equal(e, "all tasks by call", append([]agent.Task{}, Must(e.S.TasksOf(e.Ctx, threadID, ids))(e)...), append([]agent.Task{}, tasks...))
	open := Must(e.S.OpenCalls(e.Ctx, threadID))(e)
	for _, c := range calls {
		if !c.Status.Final() && !slices.Contains(open, c.ID) {
			e.Errorf("call %s (%s) is not among the open ones, %q", c.ID, c.Status, open)
		}
	}
	for _, k := range tasks {
		ended := k.Status == agent.TaskSuccess || k.Status == agent.TaskFailed || k.Status == agent.TaskCancelled
		if !ended && !slices.Contains(open, agent.CallOfTask(k.ID)) {
			e.Errorf("the call of task %s (%s) is not among the open ones, %q", k.ID, k.Status, open)
		}
	}
	inbox := e.Inbox(threadID)
	var waiting []memory.InboxEntry
	for _, x := range inbox {
		if x.State == memory.EntryWaiting {
			waiting = append(waiting, x)
		}
	}
	Equal(e, "waiting", append([]memory.InboxEntry(nil), Must(e.S.Waiting(e.Ctx, threadID))(e)...), waiting)
	back := Pages(2, func(last memory.InboxEntry) []memory.InboxEntry {
		return Must(e.S.InboxBefore(e.Ctx, threadID, last.Seq, 2))(e)
	})
	slices.Reverse(back)
	Equal(e, "the inbox read backward", back, append([]memory.InboxEntry(nil), inbox...))
	last := Must(e.S.LastTurn(e.Ctx, threadID))(e)
	if turns := Must(e.S.TurnsOf(e.Ctx, threadID))(e); len(turns) > 0 {
		Equal(e, "last turn", *last, turns[len(turns)-1])
	} else if last != nil {
		e.Errorf("there is a last turn, %s, of none", last.ID)
	}
	th, m := e.Thread(threadID), e.Mark(threadID)
	Equal(e, "last event and open turn", [2]any{m.LastEvent, m.TurnID}, [2]any{int64(len(e.Events(threadID))), th.OpenTurnID})
	if m.Idle && (th.OpenTurnID != "" || slices.ContainsFunc(waiting, func(x memory.InboxEntry) bool { return !x.Quiet })) {
		e.Errorf("%s counts as idle", threadID)
	}
}

func (e *Env) Mark(threadID string) memory.Mark {
	marks := Must(e.S.Mark(e.Ctx, []string{threadID}))(e)
	if len(marks) != 1 {
		e.Fatalf("%d marks of %s", len(marks), threadID)
	}
	return marks[0]
}
