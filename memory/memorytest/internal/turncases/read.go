package turncases

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var readRules = []suite.Rule{
	{Name: "a list is read page by page without a gap or a repetition, also where threads were active at once", Run: func(e *suite.Env) {
		var want []string
		for i := range 9 {
			if i%3 == 0 {
				e.H.Clock.Advance(time.Second)
			}
			want = append(want, e.Send(fmt.Sprintf("s%d", i), "m").ThreadID)
		}
		var got []string
		for _, th := range suite.Pages(2, func(last agent.Thread) []agent.Thread {
			return suite.Must(e.S.Threads(e.Ctx, memory.ThreadFilter{UserID: suite.User, Limit: 2, Before: last.UpdatedAt, AfterID: last.ID}))(e)
		}) {
			got = append(got, th.ID)
		}
		suite.Equal(e, "all of them", got, e.Threads(memory.ThreadFilter{UserID: suite.User}))
		slices.Sort(got)
		suite.Equal(e, "each once", got, want)
	}},
	{Name: "a search finds what people read in a conversation: topics and texts in any case, of the user and the profile only", Run: func(e *suite.Env) {
		e.Answer(e.Take(e.SendPlain("s1", "m1", "Which vendor is best?").ThreadID), 1, "It is \"Acme 100%\" of\nRome, a_b.")
		e.H.Clock.Advance(time.Second)
		e.Answer(e.Take(e.SendPlain("s2", "m1", "something else, and nothing of the role").ThreadID), 1, "no "+strings.Repeat("word ", 40)+"acme "+strings.Repeat("word ", 40))
		find := func(user, profile, text string) (ids []string, snippets []string) {
			for _, f := range suite.Must(e.S.Search(e.Ctx, user, profile, text))(e) {
				ids, snippets = append(ids, f.ID), append(snippets, f.Snippet)
			}
			return ids, snippets
		}
		ids, snippets := find(suite.User, "", " ACME ")
		suite.Equal(e, "both, the newest first", ids, []string{"s2/default", "s1/default"})
		suite.Equal(e, "what stands around it", fmt.Sprint(strings.HasPrefix(snippets[0], "…"), strings.Contains(snippets[0], "word acme word"), snippets[1]), "true trueIt is \"Acme 100%\" of Rome, a_b.")
		for text, want := range map[string][]string{
			"vendor": {"s1/default"}, "100%": {"s1/default"}, "%": {"s1/default"}, "a_b": {"s1/default"}, "a%b": nil, "\"acme": {"s1/default"}, "of\nrome": {"s1/default"},
			"the role": {"s2/default"}, "assistant": nil, "timestamp": nil, "!": nil, "' OR 1=1": nil, "  ": nil, "\x00": nil,
		} {
			ids, _ := find(suite.User, "", text)
			suite.Equal(e, text, ids, want)
		}
		none, _ := find(suite.OtherUser, "", "acme")
		suite.Equal(e, "of another user", none, nil)
		none, _ = find(suite.User, "other", "acme")
		suite.Equal(e, "in another profile", none, nil)
		all, _ := find("", "", "acme")
		suite.Equal(e, "of anybody", len(all), 2)
	}},
	{Name: "another profile's session is not found", Run: func(e *suite.Env) {
		id := e.Send("s1", "m1").ThreadID
		for _, r := range []memory.SendRequest{suite.Message("s1", "x", "x"), {UserID: suite.User, Profile: "other", ThreadID: id, MessageID: "x", Content: agent.Text("x")}} {
			r.Profile = "other"
			suite.Fails(e.S.Send(e.Ctx, r))(e, map[bool]agent.Code{true: agent.CodeConflict, false: agent.CodeNotFound}[r.ThreadID == ""])
			if r.ThreadID == "" {
				r.ConversationID = "new"
				suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeConflict)
			}
		}
		suite.Equal(e, "listed", len(e.Threads(memory.ThreadFilter{UserID: suite.User, Profile: "other"})), 0)
	}},
	{Name: "other users find nothing", Turn: func(e *suite.Env, t memory.Turn) {
		e.Child(t, 1)
		suite.Fails(e.S.Thread(e.Ctx, suite.OtherUser, t.ThreadID))(e, agent.CodeNotFound)
		suite.Equal(e, "threads", len(e.Threads(memory.ThreadFilter{UserID: suite.OtherUser, All: true})), 0)
		suite.Equal(e, "without a user", suite.Must(e.S.Thread(e.Ctx, "", t.ThreadID))(e).ID, t.ThreadID)
	}},
	{Name: "what is missing is not found", Run: func(e *suite.Env) {
		const none = "none/default"
		suite.Fails(e.S.Thread(e.Ctx, suite.User, none))(e, agent.CodeNotFound)
		suite.Fails(e.S.Messages(e.Ctx, none, 0, 10))(e, agent.CodeNotFound)
		suite.Fails(e.S.Events(e.Ctx, none, 0, 10))(e, agent.CodeNotFound)
		suite.Fails(e.S.Tasks(e.Ctx, none))(e, agent.CodeNotFound)
		suite.Fails(e.S.Inbox(e.Ctx, none))(e, agent.CodeNotFound)
		suite.Fails(e.S.TurnsOf(e.Ctx, none))(e, agent.CodeNotFound)
		suite.Fails(e.S.Turn(e.Ctx, "tnone"))(e, agent.CodeNotFound)
		suite.Fails(e.S.CloseTurn(e.Ctx, memory.CloseRequest{ThreadID: none, TurnID: "tnone", Outcome: agent.ThreadCompleted, Step: 1}))(e, agent.CodeNotFound)
	}},
	{Name: "no list shows a sub-agent unless asked", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Delegate(t, 1, "researcher")
		suite.Equal(e, "list", e.Threads(memory.ThreadFilter{UserID: suite.User}), []string{t.ThreadID})
		suite.Equal(e, "session", e.Threads(memory.ThreadFilter{UserID: suite.User, SessionID: "s1"}), []string{t.ThreadID})
		all := e.Threads(memory.ThreadFilter{UserID: suite.User, All: true})
		slices.Sort(all)
		suite.Equal(e, "all", all, []string{d.ChildThread, t.ThreadID})
		sub := e.Thread(d.ChildThread)
		for _, begins := range []string{sub.AgentID[:len(sub.AgentID)-2], sub.AgentID[len(sub.AgentID)-12:], sub.AgentID[len(sub.AgentID)-12:][:5], sub.ID[:12]} {
			suite.Equal(e, begins, e.Threads(memory.ThreadFilter{UserID: suite.User, All: true, Prefix: begins}), []string{d.ChildThread})
		}
	}},
	{Name: "threads are listed newest activity first, filtered and paged", Run: func(e *suite.Env) {
		for i := range 4 {
			e.H.Clock.Advance(time.Second)
			r := suite.Message(fmt.Sprintf("s%d", i), "m1", "hi")
			r.Workdir = fmt.Sprintf("/w%d", i%2)
			r.Profile = []string{"default", "work"}[i/2]
			suite.Must(e.S.Send(e.Ctx, r))(e)
		}
		e.H.Clock.Advance(time.Second)
		e.Send("s0", "m2")
		suite.Equal(e, "order", e.Threads(memory.ThreadFilter{UserID: suite.User}), []string{"s0/default", "s3/default", "s2/default", "s1/default"})
		suite.Equal(e, "limit", e.Threads(memory.ThreadFilter{UserID: suite.User, Limit: 2}), []string{"s0/default", "s3/default"})
		suite.Equal(e, "prefix", e.Threads(memory.ThreadFilter{UserID: suite.User, Prefix: "s3/"}), []string{"s3/default"})
		suite.Equal(e, "no pattern", len(e.Threads(memory.ThreadFilter{UserID: suite.User, Prefix: "s_"})), 0)
		suite.Equal(e, "status", len(e.Threads(memory.ThreadFilter{UserID: suite.User, Status: agent.ThreadPending})), 4)
		suite.Equal(e, "another status", len(e.Threads(memory.ThreadFilter{UserID: suite.User, Status: agent.ThreadFailed})), 0)
		suite.Equal(e, "workdir", e.Threads(memory.ThreadFilter{UserID: suite.User, Workdir: "/w1"}), []string{"s3/default", "s1/default"})
		suite.Equal(e, "profile", e.Threads(memory.ThreadFilter{UserID: suite.User, Profile: "work"}), []string{"s3/default", "s2/default"})
		third := e.Thread("s3/default")
		suite.Equal(e, "page", e.Threads(memory.ThreadFilter{UserID: suite.User, Before: third.UpdatedAt}), []string{"s2/default", "s1/default"})
	}},
	{Name: "messages and events are read in pages by sequence number", Turn: func(e *suite.Env, t memory.Turn) {
		for n := 1; n <= 5; n++ {
			e.Step(t, n, "r")
		}
		messages := suite.Pages(3, func(last agent.Message) []agent.Message {
			return suite.Must(e.S.Messages(e.Ctx, t.ThreadID, last.Seq, 3))(e)
		})
		events := suite.Pages(4, func(last agent.Event) []agent.Event {
			return suite.Must(e.S.Events(e.Ctx, t.ThreadID, last.Seq, 4))(e)
		})
		suite.Equals(e, "messages", messages, e.Messages(t.ThreadID), "events", events, e.Events(t.ThreadID))
		suite.Equal(e, "beyond the end", len(suite.Must(e.S.Messages(e.Ctx, t.ThreadID, 1000, 3))(e)), 0)
	}},
}

var eventRules = []suite.Rule{
	{Name: "events of a turn come in their order", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Calls(t, 1, 2)
		e.RunTool(calls[0], "a")
		e.RunTool(calls[1], "b")
		e.SaveRound(t, 1)
		e.Answer(t, 2, "done")
		suite.Equal(e, "types", e.Types(t.ThreadID), []string{
			agent.EventMessageStarted, agent.EventToolCalls, agent.EventToolCall, agent.EventToolCall,
			agent.EventToolResponse, agent.EventToolResponse, agent.EventAssistantMessage, agent.EventDone,
		})
		for i, ev := range e.Events(t.ThreadID) {
			suite.Equal(e, "thread, seq and turn", [3]any{ev.ThreadID, ev.Seq, ev.TurnID}, [3]any{t.ThreadID, int64(i + 1), t.ID})
			suite.Equal(e, "time", ev.At.Equal(e.H.Clock.Now()), true)
		}
	}},
	{Name: "payloads have the fields that are promised", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Gated(t, 1, agent.GateAuto, agent.GateAsk, agent.GateAsk)
		e.RunTool(calls[0], "a")
		d := suite.Decision(e.Ask(t, 1).ID, memory.Approve)
		d.Calls = []string{calls[1].ID}
		e.Decide(d)
		e.RunTool(calls[1], "b")
		e.SaveRound(t, 1)
		e.AnswerTo(e.Questioned(t, 2, "a?")[0].ID, "x")
		e.Answer(t, 3, "done")
		fails := e.Started("s2")
		e.Close(suite.Failed(fails, 1, agent.ReasonError))
		for typ, keys := range map[string][]string{
			agent.EventMessageStarted:   {"content", "toolNames"},
			agent.EventToolCalls:        {"toolCalls"},
			agent.EventToolCall:         {"intent", "arguments", "toolCallId"},
			agent.EventApprovalRequired: {"approvalId", "toolCalls", "agent"},
			agent.EventApprovalResponse: {"approvalId", "decision", "approvedCalls"},
			agent.EventQuestionAsked:    {"questionId", "agent", "text"},
			agent.EventQuestionAnswered: {"questionId", "answeredBy"},
			agent.EventToolResponse:     {"toolCallId", "name", "status", "durationMs"},
			agent.EventMemoryAppended:   {"fromSeq", "toSeq"},
			agent.EventAssistantMessage: {"messageId", "content"},
			agent.EventDone:             {"responseTimeMs", "usage"},
		} {
			e.Payload(t.ThreadID, typ, keys)
		}
		e.Payload(fails.ThreadID, agent.EventError, []string{"code", "message", "retryable"})
		call := e.EventsOf(t.ThreadID, agent.EventToolCall)[0]
		suite.Equal(e, "intent", call["intent"], any("lookup"))
		response := e.EventsOf(t.ThreadID, agent.EventToolResponse)[0]
		suite.Equal(e, "response", [4]any{response["toolCallId"], response["name"], response["status"], response["result"]}, [4]any{calls[0].ID, "lookup", "success", "a"})
	}},
	{Name: "memory_appended names what was appended", Turn: func(e *suite.Env, t memory.Turn) {
		e.RunTool(e.Calls(t, 1, 1)[0], "a")
		saved := e.SaveRound(t, 1)
		evs := e.EventsOf(t.ThreadID, agent.EventMemoryAppended)
		last := evs[len(evs)-1]
		suite.Equal(e, "range", [2]any{last["fromSeq"], last["toSeq"]}, [2]any{float64(saved.FromSeq), float64(saved.ToSeq)})
	}},
	{Name: "each turn is closed by exactly one done or error", Run: func(e *suite.Env) {
		for i, end := range []func(t memory.Turn){
			func(t memory.Turn) { e.Answer(t, 1, "x") },
			func(t memory.Turn) { e.Close(suite.Failed(t, 1, agent.ReasonTimeout)) },
			func(t memory.Turn) { e.Close(suite.Cancelled(t, 1)) },
			func(t memory.Turn) { e.Terminated(t, 1) },
		} {
			t := e.Started(fmt.Sprintf("s%d", i))
			end(t)
			types := e.Types(t.ThreadID)
			suite.Equal(e, "ends", len(e.EventsOf(t.ThreadID, agent.EventDone))+len(e.EventsOf(t.ThreadID, agent.EventError)), 1)
			last := types[len(types)-1]
			suite.Equal(e, "the last is an end", last == agent.EventDone || last == agent.EventError, true)
			e.Sound(t.ThreadID)
		}
	}},
	{Name: "a child's steps are told on its delegator with the ids that tell children apart", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Delegate(t, 1, "researcher")
		child := e.Take(d.ChildThread)
		parsed, err := agent.ParseThreadID(d.ChildThread)
		e.Ok(err)
		e.Step(child, 1, "a")
		e.Answer(child, 2, "the finding")
		e.TakeResult(e.FirstCall(t, 1))
		for typ, keys := range map[string][]string{
			agent.EventSubAgentStarted:    {"agentId", "agentName", "toolCallId"},
			agent.EventSubAgentToolCall:   {"agentId", "toolCallId", "toolName", "arguments"},
			agent.EventSubAgentToolResult: {"agentId", "toolCallId", "toolName", "durationMs", "status"},
			agent.EventSubAgentCompleted:  {"agentId", "agentName", "status", "result", "durationMs"},
			agent.EventSubAgentMetrics:    {"agentId", "metrics"},
		} {
			e.Payload(t.ThreadID, typ, keys)
			evs := e.EventsOf(t.ThreadID, typ)
			suite.Equals(e, typ, len(evs), 1, "agent", evs[0]["agentId"], any(parsed.AgentID))
		}
		e.SaveRound(t, 1)
	}},
}

var windowRules = []suite.Rule{
	{Name: "a mark is another one after each event and each streamed piece of its thread, and stays while others work", Run: func(e *suite.Env) {
		other := e.Started("s2")
		t := e.Started("s1")
		suite.Equal(e, "idle", e.Mark(t.ThreadID).Idle, false)
		seen := e.Mark(t.ThreadID)
		attempt := 0
		for i, write := range []func(){
			func() { attempt = e.Begin(t, 1) },
			func() { e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, attempt, 0, "x"))) },
			func() { e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, attempt, 1, "y"))) },
			func() { attempt = e.Begin(t, 1) },
			func() {
				suite.Must(e.S.SaveReply(e.Ctx, suite.Record(t, 1, attempt, "xyz", suite.Lookup(1))))(e)
			},
			func() { e.RunTool(e.FirstCall(t, 1), "r"); e.SaveRound(t, 1) },
			func() { e.Answer(t, 2, "done") },
		} {
			e.Step(other, i+1, "r")
			suite.Equal(e, "while another thread worked", e.Mark(t.ThreadID), seen)
			write()
			now := e.Mark(t.ThreadID)
			if now == seen {
				e.Errorf("write %d did not change the mark %+v", i, now)
			}
			seen = now
		}
		suite.Equal(e, "idle", seen.Idle, true)
		e.Send("s1", "m2")
		suite.Equal(e, "idle with a message", e.Mark(t.ThreadID).Idle, false)
	}},
	{Name: "calls and tasks are read by name, in order, and of their thread only", Run: func(e *suite.Env) {
		t, other := e.Started("s1"), e.Started("s2")
		foreign := e.Calls(other, 1, 1)[0].ID
		var ids []string
		for n := 1; n <= 3; n++ {
			for _, c := range e.Calls(t, n, 2) {
				e.RunTool(c, "r")
				ids = append(ids, c.ID)
			}
			e.SaveRound(t, n)
		}
		var got, tasks []string
		asked := []string{ids[4], foreign, "call_none", ids[1], ids[0]}
		for _, c := range suite.Must(e.S.ToolCallsOf(e.Ctx, t.ThreadID, asked))(e) {
			got = append(got, c.ID)
		}
		for _, k := range suite.Must(e.S.TasksOf(e.Ctx, t.ThreadID, asked))(e) {
			tasks = append(tasks, agent.CallOfTask(k.ID))
		}
		want := []string{ids[0], ids[1], ids[4]}
		suite.Equals(e, "calls", got, want, "tasks", tasks, want)
	}},
	{Name: "a task in the background is open until its sub-agent ends, whatever came after", Turn: func(e *suite.Env, t memory.Turn) {
		d := e.Away(t)
		is := func(want ...string) {
			e.Helper()
			suite.Equal(e, "open", append([]string{}, suite.Must(e.S.OpenCalls(e.Ctx, t.ThreadID))(e)...), append([]string{}, want...))
		}
		is(agent.CallOfTask(d.TaskID))
		child := e.Take(d.ChildThread)
		is(agent.CallOfTask(d.TaskID))
		e.Answer(child, 1, "found")
		is()
		e.Windows(t.ThreadID)
	}},
	{Name: "a list can be read since a time", Run: func(e *suite.Env) {
		e.Send("s1", "m1")
		e.H.Clock.Advance(time.Second)
		t := e.Started("s2")
		at := e.Thread(t.ThreadID).UpdatedAt
		child := e.Delegate(t, 1, "researcher").ChildThread
		suite.Equal(e, "since", e.Threads(memory.ThreadFilter{UserID: suite.User, Since: at}), []string{t.ThreadID})
		all := e.Threads(memory.ThreadFilter{UserID: suite.User, Since: at, All: true})
		slices.Sort(all)
		suite.Equal(e, "sub-agents too", all, []string{child, t.ThreadID})
		suite.Equal(e, "later", len(e.Threads(memory.ThreadFilter{UserID: suite.User, Since: at.Add(time.Second), All: true})), 0)
	}},
}
