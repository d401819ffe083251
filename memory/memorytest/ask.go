package memorytest

import (
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// asking is one of the two kinds of what agents ask people, with what the rules of
// both need of it.
type asking struct {
	name  string
	waits agent.ThreadStatus
	// open asks in a step, and again; nobody is asked if that fails.
	open  func(e *env, t memory.Turn, step int) (id, call string)
	again func(e *env, t memory.Turn, call string) error
	// settle answers one way or another.
	settle         func(e *env, user, by, target string, yes bool) (repeated bool, err error)
	list           func(e *env, f memory.AskFilter) []asked
	asked, settled string // events
	idField        string
}

// asked is what both kinds have in common.
type asked struct{ id, thread, root, agent, outcome string }

var askings = []asking{
	{
		name: "approval", waits: agent.ThreadWaitingForApproval, asked: agent.EventApprovalRequired, settled: agent.EventApprovalResponse, idField: "approvalId",
		open: func(e *env, t memory.Turn, step int) (string, string) {
			c := e.gated(t, step, agent.GateAsk)[0]
			return e.ask(t, step).ID, c.ID
		},
		again: func(e *env, t memory.Turn, _ string) error {
			_, err := e.s.OpenApproval(e.ctx, round(t, 1))
			return err
		},
		settle: func(e *env, user, by, target string, yes bool) (bool, error) {
			d := decision(target, memory.Deny)
			d.UserID, d.By = user, by
			if yes {
				d.Verdict = memory.Approve
			}
			r, err := e.s.Decide(e.ctx, d)
			return r.Repeated, err
		},
		list: func(e *env, f memory.AskFilter) (all []asked) {
			for _, a := range e.approvals(f) {
				all = append(all, asked{a.ID, a.ThreadID, a.RootThread, a.Agent, a.Decision})
			}
			return all
		},
	},
	{
		name: "question", waits: agent.ThreadWaitingForUser, asked: agent.EventQuestionAsked, settled: agent.EventQuestionAnswered, idField: "questionId",
		open: func(e *env, t memory.Turn, step int) (string, string) {
			q := e.questioned(t, step, "a?")[0]
			return q.ID, q.CallID
		},
		again: func(e *env, t memory.Turn, call string) error {
			_, err := e.s.OpenQuestion(e.ctx, memory.QuestionRequest{ThreadID: t.ThreadID, TurnID: t.ID, CallID: call, Text: "another text"})
			return err
		},
		settle: func(e *env, user, by, target string, yes bool) (bool, error) {
			r := answerTo(target, map[bool]string{true: "approve", false: "deny"}[yes])
			r.UserID, r.By = user, by
			res, err := e.s.Answer(e.ctx, r)
			return res.Repeated, err
		},
		list: func(e *env, f memory.AskFilter) (all []asked) {
			for _, q := range e.questions(f) {
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
func ofBoth(name string, run func(e *env, k asking)) []rule {
	var rules []rule
	for _, k := range askings {
		rules = append(rules, rule{k.name + ": " + name, func(e *env) { run(e, k) }})
	}
	return rules
}

var askRules = join(
	ofBoth("asking again changes nothing, before and after it is settled", func(e *env, k asking) {
		t := e.started("s1")
		id, call := k.open(e, t, 1)
		e.unchanged(t.ThreadID, func() { e.ok(k.again(e, t, call)) })
		must[bool](e)(k.settle(e, user, "alice", id, true))
		if k.name == "approval" { // the answer ended the step
			e.unchanged(t.ThreadID, func() { e.ok(k.again(e, t, call)) })
		}
	}),
	ofBoth("time spent waiting for a person is recorded", func(e *env, k asking) {
		t := e.started("s1")
		id, _ := k.open(e, t, 1)
		equal(e, "thread", e.thread(t.ThreadID).Status, k.waits)
		e.h.Clock.Advance(time.Hour)
		must[bool](e)(k.settle(e, user, "alice", id, true))
		equal(e, "waited", e.turn(t.ID).WaitedMs, time.Hour.Milliseconds())
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadRunning)
	}),
	ofBoth("it may be named by its call", func(e *env, k asking) {
		t := e.started("s1")
		_, call := k.open(e, t, 1)
		must[bool](e)(k.settle(e, user, "alice", call, true))
		equal(e, "outcome", k.list(e, memory.AskFilter{ThreadID: t.ThreadID})[0].outcome, memory.Approve)
	}),
	ofBoth("the same again returns the first outcome, another is a conflict that says who was first", func(e *env, k asking) {
		t := e.started("s1")
		id, _ := k.open(e, t, 1)
		equal(e, "repeated", must[bool](e)(k.settle(e, user, "alice", id, true)), false)
		e.unchanged(t.ThreadID, func() {
			equal(e, "repeated", must[bool](e)(k.settle(e, user, "alice", id, true)), true)
			_, err := k.settle(e, user, "bob", id, false)
			e.code(err, agent.CodeConflict)
			contains(e, "refusal", err.Error(), "alice")
		})
	}),
	ofBoth("the first of many at once wins", func(e *env, k asking) {
		t := e.started("s1")
		id, _ := k.open(e, t, 1)
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = k.settle(e, user, "alice", id, i%2 == 0) })
		}
		wg.Wait()
		won := k.list(e, memory.AskFilter{ThreadID: t.ThreadID})[0].outcome == memory.Approve
		for i, err := range errs {
			if (i%2 == 0) == won {
				e.ok(err)
			} else {
				e.code(err, agent.CodeConflict)
			}
		}
		equal(e, "settled", len(e.eventsOf(t.ThreadID, k.settled)), 1)
		e.sound(t.ThreadID)
	}),
	ofBoth("one of a descendant is listed under its root, and shown there by name", func(e *env, k asking) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		id, _ := k.open(e, child, 1)
		equal(e, "listed", k.list(e, memory.AskFilter{UserID: user, RootThread: t.ThreadID, OpenOnly: true}),
			[]asked{{id, child.ThreadID, t.ThreadID, "researcher", ""}})
		equal(e, "child", e.thread(child.ThreadID).Status, k.waits)
		equal(e, "task", e.task(t.ThreadID, child.TaskID).Status, agent.TaskWaiting)
		ev := e.eventsOf(t.ThreadID, k.asked)
		equal(e, "event", []any{len(ev), ev[0][k.idField], ev[0]["agent"], ev[0]["threadId"]}, []any{1, id, "researcher", child.ThreadID})
		must[bool](e)(k.settle(e, user, "alice", id, true))
		equal(e, "task", e.task(t.ThreadID, child.TaskID).Status, agent.TaskRunning)
		equal(e, "settled", len(e.eventsOf(t.ThreadID, k.settled)), 1)
		e.sound(t.ThreadID)
	}),
	ofBoth("those of others are neither listed nor settled, and unknown ones are not found", func(e *env, k asking) {
		t := e.started("s1")
		id, _ := k.open(e, t, 1)
		equal(e, "listed", len(k.list(e, memory.AskFilter{UserID: otherUser})), 0)
		equal(e, "by id", len(k.list(e, memory.AskFilter{ID: id, UserID: user})), 1)
		equal(e, "by no id", len(k.list(e, memory.AskFilter{ID: "none"})), 0)
		e.unchanged(t.ThreadID, func() {
			_, err := k.settle(e, otherUser, "mallory", id, true)
			e.code(err, agent.CodeNotFound)
			_, err = k.settle(e, user, "alice", "none", true)
			e.code(err, agent.CodeNotFound)
		})
	}),
	ofBoth("closing a turn settles it as aborted, in the foreground below too, and a person comes too late", func(e *env, k asking) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		id, call := k.open(e, child, 1)
		e.terminated(t, 1) // what waits for a person is aborted, not unknown
		equal(e, "open", len(k.list(e, memory.AskFilter{RootThread: t.ThreadID, OpenOnly: true})), 0)
		equal(e, "outcome", k.list(e, memory.AskFilter{ThreadID: child.ThreadID})[0].outcome, "aborted")
		equal(e, "call", e.call(call).Status, agent.CallAborted)
		equal(e, "settled", len(e.eventsOf(t.ThreadID, k.settled)), 1)
		e.unchanged(t.ThreadID, func() {
			_, err := k.settle(e, user, "alice", id, true)
			e.code(err, agent.CodeConflict)
		})
		e.sound(t.ThreadID)
	}),
	ofBoth("a turn that is to be cancelled asks nothing", func(e *env, k asking) {
		t := e.started("s1")
		r := record(t, 1, e.begin(t, 1), "", askUser("a?"), lookup(1))
		r.Gates[1] = agent.GateAsk
		calls := must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, r)).Calls
		e.requestCancel(cancelOf(t))
		e.unchanged(t.ThreadID, func() { e.code(k.again(e, t, calls[0].ID), agent.CodeConflict, agent.CodeStale) })
	}),
)

func join(groups ...[]rule) (all []rule) {
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}
