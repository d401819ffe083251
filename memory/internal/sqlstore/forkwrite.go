package sqlstore

import (
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// write inserts the copy of a thread. A turn that is cut is open until settle.
func (f *fork) write(one *forkThread, at string) error {
	if err := f.writeThread(one); err != nil {
		return err
	}
	err := f.exec(`INSERT INTO forks (thread_id, from_thread, from_seq, at_message, cut) VALUES (?, ?, ?, ?, ?)`,
		one.t.ID, one.src.ID, one.message, at, flag(one.open != nil || len(one.unbegun) > 0))
	if err != nil {
		return err
	}
	err = f.exec(`INSERT INTO forgotten (thread_id, at) SELECT ?, at FROM forgotten WHERE thread_id = ?`, one.t.ID, one.src.ID)
	if err != nil {
		return err
	}
	err = f.exec(`INSERT INTO image_refs (thread_id, name) SELECT ?, name FROM image_refs WHERE thread_id = ?`, one.t.ID, one.src.ID)
	if err != nil {
		return err
	}
	steps, err := f.steps(one)
	if err != nil {
		return err
	}
	for _, part := range []func() error{
		func() error { return f.writeTurns(one, steps) },
		func() error { return f.writeSummaries(one) },
		func() error { return f.writeSteps(steps) },
		func() error { return f.writeCalls(one) },
		func() error { return f.writeAsks(one) },
		func() error { return f.writeTasks(one) },
		func() error { return f.writeEntries(one) },
		func() error { return f.writeMessages(one) },
		func() error { return f.writeEvents(one) },
	} {
		if err := part(); err != nil {
			return err
		}
	}
	one.t.dirty = true
	return nil
}

func (f *fork) writeThread(one *forkThread) error {
	src, t := one.src, &threadRow{Thread: one.src.Thread}
	t.ID, t.RootThreadID, t.ConversationID = f.newThread(src.ID), f.id, f.conversation
	t.ParentThreadID, t.AgentID = f.newThread(src.ParentThreadID), f.newID(src.AgentID)
	t.ParentToolCallID = f.newID(src.ParentToolCallID)
	t.Status, t.Reason, t.Summary, t.OpenTurnID, t.TaskID = agent.ThreadPending, "", "", "", ""
	t.Metadata = agent.Metadata{Topic: src.Topic}
	t.ordinal, t.configHash, t.pickModel = src.ordinal, src.configHash, src.pickModel
	t.noImages = src.noImages
	t.created = src.created
	if t.Kind == agent.KindMain {
		t.created = max(f.now, src.created)
	}
	t.at, t.updated = max(one.at, src.created), max(one.at, src.created)
	t.lastEvent, t.lastMessage, t.MessageCount = one.event, one.message, one.message
	t.ToolCallCount = int64(len(one.calls))
	if err := f.exec(insertThread, append(append(t.fixed(), t.mutable()...), t.ID)...); err != nil {
		return err
	}
	t.loaded()
	f.unit.threads = append(f.unit.threads, t)
	one.t = t
	if parent := f.threads[src.ParentThreadID]; parent != nil {
		parent.t.lastChild = max(parent.t.lastChild, src.ordinal)
	}
	return nil
}

// steps reads the steps that are copied, in order.
func (f *fork) steps(one *forkThread) ([]*stepRow, error) {
	rows, err := f.rows(selectStep+` WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ?) ORDER BY turn_id, step`, one.src.ID)
	steps, err := collect(rows, err, (*stepRow).targets, func(s *stepRow) error { s.loaded(); return nil })
	return slices.DeleteFunc(steps, func(s *stepRow) bool { return !one.holds(s.TurnID, s.Step.Step) }), err
}

func (f *fork) writeTurns(one *forkThread, steps []*stepRow) error {
	t := one.t
	for _, src := range one.turns {
		turn := *src
		turn.ID, turn.ThreadID = f.newTurn(src.ID), t.ID
		turn.MessageID = f.newEntryID(src.EntryKind, src.MessageID)
		turn.DelegatorThread, turn.DelegatorTurn = f.newThread(src.DelegatorThread), f.newID(src.DelegatorTurn)
		turn.DelegatorCall, turn.TaskID = f.newID(src.DelegatorCall), f.newID(src.TaskID)
		turn.RetryOf, turn.RunID, turn.NextTurn, turn.dirty = f.newID(src.RetryOf), "", "", false
		turn.Answer, turn.Error = f.text(src.Answer), f.text(src.Error)
		if slices.ContainsFunc(one.turns, func(o *turnRow) bool { return o.ID == src.NextTurn }) {
			turn.NextTurn = f.newTurn(src.NextTurn)
		}
		closed, err := encode(memory.Closed{Outcome: turn.Outcome, Next: turn.NextTurn})
		if err != nil {
			return err
		}
		turn.closed = closed
		if src == one.open {
			if err := f.reopen(one, &turn, steps); err != nil {
				return err
			}
		} else {
			t.Status, t.Reason = turn.Outcome, ""
			if turn.Outcome == agent.ThreadFailed {
				t.Reason = turn.Reason
			}
			t.TotalTimeMs += turn.closedMs - turn.opened
			if t.Kind == agent.KindSubAgent {
				t.Summary = short(turn.Answer, summaryLength)
			}
		}
		use := turn.Usage
		use.ToolCalls = 0
		t.count(use)
		t.lastTurn = turn.n
		t.TaskID = or(turn.TaskID, t.TaskID)
		if err := f.insertTurn(&turn); err != nil {
			return err
		}
		for _, s := range steps {
			if s.TurnID == src.ID && s.Stored {
				if err := seen(t, s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// seen makes the size of the thread's last model call that of a step.
func seen(t *threadRow, s *stepRow) error {
	reply, err := s.modelReply()
	if err != nil {
		return err
	}
	a, err := s.readAccount()
	use, before := oneRequest(reply.Usage), a.Earlier
	t.ContextWindow = agent.ContextWindow{
		Prompt: use.PromptTokens - before.PromptTokens, Completion: use.CompletionTokens - before.CompletionTokens, Total: use.TotalTokens - before.TotalTokens,
	}
	return err
}

// reopen makes a turn what it was when its last copied message was saved.
func (f *fork) reopen(one *forkThread, turn *turnRow, steps []*stepRow) error {
	id := one.open.ID
	one.t.OpenTurnID, one.t.Status = turn.ID, agent.ThreadRunning
	turn.State, turn.Outcome, turn.Reason, turn.ErrorCode, turn.Error, turn.Answer = memory.TurnOpen, "", "", "", "", ""
	turn.Steps, turn.saved, turn.delegations, turn.Usage = one.saved, one.saved, 0, agent.Usage{}
	turn.cancelAt, turn.CancelBy, turn.closedMs, turn.closed = 0, "", 0, ""
	if turn.answerSeq > one.message {
		turn.answerSeq = 0
	}
	for _, s := range steps {
		if s.TurnID != id {
			continue
		}
		reply, err := s.modelReply()
		if err != nil {
			return err
		}
		use := oneRequest(reply.Usage)
		use.ToolCalls = int64(len(reply.Calls))
		turn.Usage = turn.Usage.Add(use)
	}
	for _, summary := range one.summaries {
		if summary.TurnID == id {
			turn.Usage = turn.Usage.Add(summary.Usage)
		}
	}
	for _, c := range one.calls {
		if c.TurnID == id && c.childTurn != "" && !c.background {
			turn.delegations++
		}
	}
	for _, e := range one.entries {
		counts := e.Kind == memory.EntryChild && e.State == memory.EntryTaken && e.DelegatorTurn == id && f.turns[e.ChildTurn] != nil
		if counts && (one.tells(e) || !e.Background && f.calls[e.CallID] != nil) {
			turn.Usage = turn.Usage.Add(f.turns[e.ChildTurn].Usage)
		}
	}
	return nil
}

func (f *fork) writeSteps(steps []*stepRow) error {
	for _, s := range steps {
		s.TurnID = f.newTurn(s.TurnID)
		s.reply, s.LastErr = f.text(s.reply), f.text(s.LastErr)
		s.textLen, s.reasoningLen, s.worker, s.wait = 0, 0, "", ""
		if err := f.exec(insertStep, s.values()...); err != nil {
			return err
		}
	}
	return nil
}

func (f *fork) writeCalls(one *forkThread) error {
	for _, src := range one.calls {
		c := *src
		c.ID, c.ThreadID, c.TurnID = f.newCall(src.ID), one.t.ID, f.newTurn(src.TurnID)
		c.worker = ""
		c.args, c.Result = f.text(src.args), f.text(src.Result)
		c.approvalID, c.taskID = f.newID(src.approvalID), f.newID(src.taskID)
		c.SubAgentThreadID, c.SubAgentID, c.childTurn = f.newThread(src.SubAgentThreadID), f.newID(src.SubAgentID), f.newID(src.childTurn)
		if err := f.exec(insertCall, append(append(c.fixed(), c.mutable()...), c.ID)...); err != nil {
			return err
		}
		var body string
		err := f.row(`SELECT body FROM outputs WHERE call_id = ?`, src.ID).Scan(&body)
		if noRows(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := f.exec(`INSERT INTO outputs (call_id, body) VALUES (?, ?)`, c.ID, f.text(body)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fork) writeAsks(one *forkThread) error {
	found, err := asks(f, `thread_id = ? AND outcome <> ''`, one.src.ID)
	if err != nil {
		return err
	}
	for _, a := range found {
		if !one.holds(a.turn, a.step) {
			continue
		}
		a.id, a.thread, a.root, a.turn = f.newID(a.id), one.t.ID, f.id, f.newTurn(a.turn)
		a.call, a.taskID = f.newID(a.call), f.newID(a.taskID)
		a.text, a.task, a.answer, a.named, a.approved = f.text(a.text), f.text(a.task), f.text(a.answer), f.text(a.named), f.text(a.approved)
		if err := f.exec(insertAsk, a.targets()...); err != nil {
			return err
		}
	}
	return nil
}

func (f *fork) writeTasks(one *forkThread) error {
	type taskRow struct {
		agent.Task
		created, updated int64
	}
	rows, err := f.rows(`SELECT id, type, name, instruction, sub_agent, status, result, error, trigger_id, created_at, updated_at FROM tasks WHERE thread_id = ? ORDER BY created_at, id`, one.src.ID)
	found, err := collect(rows, err, func(k *taskRow) []any {
		return []any{&k.ID, &k.Type, &k.Name, &k.Instruction, &k.SubAgentID, &k.Status, &k.Result, &k.Error, &k.TriggerMessageID, &k.created, &k.updated}
	}, func(*taskRow) error { return nil })
	if err != nil {
		return err
	}
	copied := map[string]bool{}
	for _, c := range one.calls {
		copied[c.taskID] = true
	}
	for _, k := range found {
		if !copied[k.ID] {
			continue
		}
		err := f.exec(insertTask, f.newID(k.ID), one.t.ID, k.Type, k.Name, f.text(k.Instruction), f.newThread(k.SubAgentID), string(k.Status),
			f.newID(k.TriggerMessageID), k.created, k.updated)
		if err != nil {
			return err
		}
		if err := f.exec(`UPDATE tasks SET result = ?, error = ? WHERE id = ?`, f.text(k.Result), f.text(k.Error), f.newID(k.ID)); err != nil {
			return err
		}
	}
	return nil
}

// writeEntries copies what the copied turns took. What the end of a sub-agent in
// the background told to a later turn, or has not told yet, settle notes anew.
func (f *fork) writeEntries(one *forkThread) error {
	for _, src := range one.entries {
		e := *src
		switch {
		case e.Kind == memory.EntryAssign:
			if f.calls[e.CallID] == nil {
				continue
			}
			if !slices.ContainsFunc(one.turns, func(t *turnRow) bool { return t.ID == e.TurnID }) {
				e.State, e.TakenBy = memory.EntryDropped, ""
			}
		case e.Kind == memory.EntryChild:
			child := f.threads[e.ChildThread]
			if child == nil || !slices.ContainsFunc(child.turns, func(t *turnRow) bool { return t.ID == e.ChildTurn && t != child.open }) {
				continue
			}
			if e.Background && !one.tells(src) {
				continue
			}
			if !e.Background && (f.calls[e.CallID] == nil || e.State != memory.EntryTaken) {
				e.State, e.TakenBy = memory.EntryDropped, ""
			}
		case e.State != memory.EntryTaken:
			continue
		case e.Kind == memory.EntryRetry:
			if !slices.ContainsFunc(one.turns, func(t *turnRow) bool { return t.ID == e.TurnID }) {
				continue
			}
		case !one.tells(src):
			continue
		}
		e.ID, e.messageID = f.newEntryID(e.Kind, e.ID), f.newEntryID(e.Kind, e.messageID)
		if e.messageID == "" || src.messageID == "" {
			e.messageID = src.messageID
		}
		e.TurnID, e.TakenBy, e.content = f.newID(src.TurnID), f.newID(e.TakenBy), f.text(src.content)
		e.ChildThread, e.ChildTurn, e.CallID = f.newThread(src.ChildThread), f.newID(src.ChildTurn), f.newID(src.CallID)
		e.TaskID, e.DelegatorThread, e.DelegatorTurn = f.newID(src.TaskID), f.newThread(src.DelegatorThread), f.newID(src.DelegatorTurn)
		if e.Kind == memory.EntryAssign {
			one.t.TaskID = e.TaskID // the one that was ordered last, whether or not a turn began it
		}
		one.t.lastEntry++
		e.ThreadID, e.Seq = one.t.ID, one.t.lastEntry
		if err := f.exec(insertEntry, e.values()...); err != nil {
			return err
		}
	}
	return nil
}

func (f *fork) writeMessages(one *forkThread) error {
	for _, m := range one.messages {
		by := ""
		if slices.ContainsFunc(one.turns, func(t *turnRow) bool { return t.ID == m.supersededBy }) {
			by = f.newTurn(m.supersededBy)
		}
		err := f.exec(`INSERT INTO messages (thread_id, seq, id, superseded_by, body) VALUES (?, ?, ?, ?, ?)`, one.t.ID, m.seq, f.newID(m.id), by, f.text(m.body))
		if err != nil {
			return err
		}
	}
	return nil
}

// writeEvents copies the log. What nobody had decided or answered by then is
// settled in it: in the copy nobody can.
func (f *fork) writeEvents(one *forkThread) error {
	asked := map[string]*eventRow{}
	var open []string
	for _, e := range one.events {
		if err := f.exec(insertEvent, one.t.ID, e.Seq, e.Type, f.newID(e.TurnID), f.text(e.data), e.at); err != nil {
			return err
		}
		var d struct{ ApprovalID, QuestionID string }
		switch e.Type {
		case agent.EventApprovalRequired, agent.EventApprovalResponse, agent.EventQuestionAsked, agent.EventQuestionAnswered:
			if err := decode(e.data, &d); err != nil {
				return err
			}
		}
		switch e.Type {
		case agent.EventApprovalRequired, agent.EventQuestionAsked:
			asked[d.ApprovalID+d.QuestionID] = e
			open = append(open, d.ApprovalID+d.QuestionID)
		case agent.EventApprovalResponse, agent.EventQuestionAnswered:
			delete(asked, d.ApprovalID+d.QuestionID)
		}
	}
	for _, id := range open {
		if e := asked[id]; e != nil {
			if err := f.settleAsked(one.t, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleAsked says in the log that what an event asked is settled.
func (f *fork) settleAsked(t *threadRow, e *eventRow) error {
	data := f.text(e.data)
	if e.Type == agent.EventQuestionAsked {
		var q questionAsked
		if err := decode(data, &q); err != nil {
			return err
		}
		return f.event(t, t.OpenTurnID, agent.EventQuestionAnswered, questionAnswered{
			QuestionID: q.QuestionID, State: string(memory.QuestionAborted), Agent: q.Agent, ThreadID: q.ThreadID,
		})
	}
	var a approvalRequired
	if err := decode(data, &a); err != nil {
		return err
	}
	return f.event(t, t.OpenTurnID, agent.EventApprovalResponse, approvalResponse{ApprovalID: a.ApprovalID, Decision: outcomeAborted, ThreadID: a.ThreadID})
}
