package peoplecases

import (
	"slices"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

// asking is one of the two kinds of what agents ask people, with what the rules of
// both need of it.
type asking struct {
	name  string
	waits agent.ThreadStatus
	// open asks in a step, and again; nobody is asked if that fails.
	open  func(e *suite.Env, t memory.Turn, step int) (id, call string)
	again func(e *suite.Env, t memory.Turn, call string) error
	// settle answers one way or another.
	settle         func(e *suite.Env, user, by, target string, yes bool) (repeated bool, err error)
	list           func(e *suite.Env, f memory.AskFilter) []asked
	asked, settled string // events
	idField        string
}

// asked is what both kinds have in common.
type asked struct{ id, thread, root, agent, outcome string }

var askings = []asking{
	{
		name: "approval", waits: agent.ThreadWaitingForApproval, asked: agent.EventApprovalRequired, settled: agent.EventApprovalResponse, idField: "approvalId",
		open: func(e *suite.Env, t memory.Turn, step int) (string, string) {
			c := e.Gated(t, step, agent.GateAsk)[0]
			return e.Ask(t, step).ID, c.ID
		},
		again: func(e *suite.Env, t memory.Turn, _ string) error {
			_, err := e.S.OpenApproval(e.Ctx, suite.Round(t, 1))
			return err
		},
		settle: func(e *suite.Env, user, by, target string, yes bool) (bool, error) {
			d := suite.Decision(target, memory.Deny)
			d.UserID, d.By = user, by
			if yes {
				d.Verdict = memory.Approve
			}
			r, err := e.S.Decide(e.Ctx, d)
			return r.Repeated, err
		},
		list: func(e *suite.Env, f memory.AskFilter) (all []asked) {
			for _, a := range e.Approvals(f) {
				all = append(all, asked{a.ID, a.ThreadID, a.RootThread, a.Agent, a.Decision})
			}
			return all
		},
	},
	{
		name: "question", waits: agent.ThreadWaitingForUser, asked: agent.EventQuestionAsked, settled: agent.EventQuestionAnswered, idField: "questionId",
		open: func(e *suite.Env, t memory.Turn, step int) (string, string) {
			q := e.Questioned(t, step, "a?")[0]
			return q.ID, q.CallID
		},
		again: func(e *suite.Env, t memory.Turn, call string) error {
			_, err := e.S.OpenQuestion(e.Ctx, memory.QuestionRequest{ThreadID: t.ThreadID, TurnID: t.ID, CallID: call, Text: "another text"})
			return err
		},
		settle: func(e *suite.Env, user, by, target string, yes bool) (bool, error) {
			r := suite.AnswerTo(target, map[bool]string{true: "approve", false: "deny"}[yes])
			r.UserID, r.By = user, by
			res, err := e.S.Answer(e.Ctx, r)
			return res.Repeated, err
		},
		list: func(e *suite.Env, f memory.AskFilter) (all []asked) {
			for _, q := range e.Questions(f) {
				outcome := q.Answer
				if q.State == memory.QuestionAborted {
					outcome = "aborted"
				}
				all = append(all, asked{q.ID, q.ThreadID, q.RootThread, q.Agent, outcome})
			}
			return all
		},
	},
}

// ofBoth makes a rule for each kind.
func ofBoth(name string, run func(e *suite.Env, k asking)) []suite.Rule {
	var rules []suite.Rule
	for _, k := range askings {
		rules = append(rules, suite.Rule{Name: k.name + ": " + name, Run: func(e *suite.Env) { run(e, k) }})
	}
	return rules
}

var askRules = slices.Concat(
	ofBoth("asking again changes nothing, before and after it is settled", func(e *suite.Env, k asking) {
		t := e.Started("s1")
		id, call := k.open(e, t, 1)
		e.Unchanged(t.ThreadID, func() { e.Ok(k.again(e, t, call)) })
		suite.Must(k.settle(e, suite.User, "alice", id, true))(e)
		if k.name == "approval" { // the answer ended the step
			e.Unchanged(t.ThreadID, func() { e.Ok(k.again(e, t, call)) })
		}
	}),
	ofBoth("the same again returns the first outcome, another is a conflict that says who was first", func(e *suite.Env, k asking) {
		t := e.Started("s1")
		id, _ := k.open(e, t, 1)
		suite.Equal(e, "repeated", suite.Must(k.settle(e, suite.User, "alice", id, true))(e), false)
		e.Unchanged(t.ThreadID, func() {
			suite.Equal(e, "repeated", suite.Must(k.settle(e, suite.User, "alice", id, true))(e), true)
			said := suite.Fails(k.settle(e, suite.User, "bob", id, false))(e, agent.CodeConflict)
			suite.Contains(e, "refusal", said, "alice")
		})
	}),
	ofBoth("the first of many at once wins", func(e *suite.Env, k asking) {
		t := e.Started("s1")
		id, _ := k.open(e, t, 1)
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = k.settle(e, suite.User, "alice", id, i%2 == 0) })
		}
		wg.Wait()
		won := k.list(e, memory.AskFilter{ThreadID: t.ThreadID})[0].outcome == memory.Approve
		for i, err := range errs {
			if (i%2 == 0) == won {
				e.Ok(err)
			} else {
				e.Code(err, agent.CodeConflict)
			}
		}
		suite.Equal(e, "settled", len(e.EventsOf(t.ThreadID, k.settled)), 1)
		e.Sound(t.ThreadID)
	}),
	ofBoth("one of a descendant is listed under its root, and shown there by name", func(e *suite.Env, k asking) {
		t := e.Started("s1")
		child := e.Child(t, 1)
		id, _ := k.open(e, child, 1)
		suite.Equal(e, "listed", k.list(e, memory.AskFilter{UserID: suite.User, RootThread: t.ThreadID, OpenOnly: true}),
			[]asked{{id, child.ThreadID, t.ThreadID, "researcher", ""}})
		suite.Equals(e, "child", e.Thread(child.ThreadID).Status, k.waits, "task", e.Task(t.ThreadID, child.TaskID).Status, agent.TaskWaiting)
		ev := e.EventsOf(t.ThreadID, k.asked)
		suite.Equal(e, "event", []any{len(ev), ev[0][k.idField], ev[0]["agent"], ev[0]["threadId"]}, []any{1, id, "researcher", child.ThreadID})
		suite.Must(k.settle(e, suite.User, "alice", id, true))(e)
		suite.Equals(e, "task", e.Task(t.ThreadID, child.TaskID).Status, agent.TaskRunning, "settled", len(e.EventsOf(t.ThreadID, k.settled)), 1)
		e.Sound(t.ThreadID)
	}),
	ofBoth("those of others are neither listed nor settled, and unknown ones are not found", func(e *suite.Env, k asking) {
		t := e.Started("s1")
		id, _ := k.open(e, t, 1)
		suite.Equal(e, "listed", len(k.list(e, memory.AskFilter{UserID: suite.OtherUser})), 0)
		suite.Equal(e, "by id", len(k.list(e, memory.AskFilter{ID: id, UserID: suite.User})), 1)
		suite.Equal(e, "by no id", len(k.list(e, memory.AskFilter{ID: "none"})), 0)
		e.Unchanged(t.ThreadID, func() {
			suite.Fails(k.settle(e, suite.OtherUser, "mallory", id, true))(e, agent.CodeNotFound)
			suite.Fails(k.settle(e, suite.User, "alice", "none", true))(e, agent.CodeNotFound)
		})
	}),
	ofBoth("closing a turn settles it as aborted, in the foreground below too, and a person comes too late", func(e *suite.Env, k asking) {
		t := e.Started("s1")
		child := e.Child(t, 1)
		id, call := k.open(e, child, 1)
		e.Terminated(t, 1) // what waits for a person is aborted, not unknown
		suite.Equal(e, "open", len(k.list(e, memory.AskFilter{RootThread: t.ThreadID, OpenOnly: true})), 0)
		suite.Equal(e, "outcome", k.list(e, memory.AskFilter{ThreadID: child.ThreadID})[0].outcome, "aborted")
		suite.Equals(e, "call", e.Call(call).Status, agent.CallAborted, "settled", len(e.EventsOf(t.ThreadID, k.settled)), 1)
		e.Unchanged(t.ThreadID, func() {
			suite.Fails(k.settle(e, suite.User, "alice", id, true))(e, agent.CodeConflict)
		})
		e.Sound(t.ThreadID)
	}),
	ofBoth("a turn that is to be cancelled asks nothing", func(e *suite.Env, k asking) {
		t := e.Started("s1")
		r := suite.Record(t, 1, e.Begin(t, 1), "", suite.AskUser("a?"), suite.Lookup(1))
		r.Gates[1] = agent.GateAsk
		calls := suite.Must(e.S.SaveReply(e.Ctx, r))(e).Calls
		e.RequestCancel(suite.CancelOf(t))
		e.Unchanged(t.ThreadID, func() { e.Code(k.again(e, t, calls[0].ID), agent.CodeConflict, agent.CodeStale) })
	}),
)
