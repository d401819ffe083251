package copy

import (
	"cmp"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rules"
)

// write inserts the copy of a thread. A turn that is cut is open until it is
// settled.
func (f *fork) write(one *forkThread, at string) {
	tables := f.dump(one.src.ID, forked)
	for _, part := range archived {
		t := tables[part.table]
		if t == nil {
			continue
		}
		t.keep(func(r row) bool {
			if !f.keeps(one, part.table, r) {
				return false
			}
			if part.table == "inbox" {
				one.taken++
				r.set("seq", one.taken)
			}
			f.renameRow(r)
			return true
		})
		if part.table == "threads" {
			row{t.Columns, t.Rows[0]}.set("conversation_id", f.conversation)
		}
		f.load(part.table, t, false)
	}
	f.Exec(`INSERT INTO forks (thread_id, from_thread, from_seq, at_message, cut) VALUES (?, ?, ?, ?, ?)`,
		f.newThread(one.src.ID), one.src.ID, one.message, at, rows.Flag(one.open != nil || one.unbegun))
	one.t = f.Thread(f.newThread(one.src.ID))
	f.count(one)
}

// keeps reports whether the copy has a row, and makes the row what it was then.
func (f *fork) keeps(one *forkThread, table string, r row) bool {
	switch table {
	case "threads":
		one.reset(r, f.Now)
	case "messages":
		if !one.has(r.text("superseded_by")) {
			r.set("superseded_by", "")
		}
		return r.number("seq") <= one.message
	case "events":
		return r.number("seq") <= one.event
	case "turns":
		r.set("run_id", "")
		if !one.has(r.text("next_turn")) {
			r.set("next_turn", "")
		}
		closed, err := rows.Encode(memory.Closed{Outcome: agent.ThreadStatus(r.text("outcome")), Next: r.text("next_turn")})
		r.set("closed", closed)
		return err == nil && one.has(r.text("id"))
	case "steps":
		for column, none := range map[string]any{"text_len": int64(0), "reasoning_len": int64(0), "worker": "", "wait": ""} {
			r.set(column, none)
		}
		return one.holds(r.text("turn_id"), int(r.number("step")))
	case "summaries":
		return r.text("state") == rows.StepStored && one.holds(r.text("turn_id"), int(r.number("step")))
	case "tool_calls":
		r.set("worker", "")
		return f.calls[r.text("id")] != nil
	case "outputs", "output_parts":
		return f.calls[r.text("call_id")] != nil
	case "asks":
		return r.text("outcome") != "" && one.holds(r.text("turn_id"), int(r.number("step")))
	case "tasks":
		c := f.calls[agent.CallOfTask(r.text("id"))]
		return c != nil && c.TaskID == r.text("id")
	case "inbox":
		i := slices.IndexFunc(one.entries, func(e *rows.Entry) bool { return e.Seq == r.number("seq") })
		return i >= 0 && f.keepsEntry(one, one.entries[i], r)
	}
	return true
}

// reset makes the row of a thread that of one which has counted nothing yet.
func (one *forkThread) reset(r row, now int64) {
	for _, column := range []string{
		"total_tokens", "prompt_tokens", "completion_tokens", "window_prompt", "window_completion", "window_total", "request_count", "total_time_ms",
		"last_turn", "last_child", "waiting", "compactions", "summarized_from", "summarized_to",
	} {
		r.set(column, int64(0))
	}
	open := ""
	if one.open != nil {
		open = one.open.ID
	}
	created := one.src.CreatedMs
	if one.src.Kind == agent.KindMain {
		created = max(now, created)
	}
	task := ""
	if one.src.Kind == agent.KindSubAgent {
		task = agent.TaskID(one.src.ParentToolCallID)
	}
	for column, v := range map[string]any{
		"total_price": 0.0, "status": string(agent.ThreadPending), "reason": "", "summary": "", "open_turn": open, "task_id": task,
		"last_event": one.event, "last_message": one.message, "message_count": one.message, "tool_call_count": int64(len(one.calls)),
		"created_at": created, "updated_at": max(one.at, one.src.CreatedMs),
	} {
		r.set(column, v)
	}
}

// keepsEntry copies what the copied turns took. What the end of a sub-agent in
// the background told to a later turn, or has not told yet, is noted anew.
func (f *fork) keepsEntry(one *forkThread, e *rows.Entry, r row) bool {
	switch e.Kind {
	case memory.EntryAssign:
		if !one.has(e.TurnID) { // work that had not begun waits, until what is cut ends
			state := memory.EntryDropped
			if one.waits(e) {
				state = memory.EntryWaiting
			}
			r.set("state", string(state))
			r.set("taken_by", "")
		}
		return f.calls[e.CallID] != nil
	case memory.EntryChild:
		child := f.threads[e.ChildThread]
		if child == nil || !child.has(e.ChildTurn) || child.open == f.turns[e.ChildTurn] {
			return false
		}
		return e.Background && one.tells(e) || !e.Background && f.calls[e.CallID] != nil && e.State == memory.EntryTaken
	case memory.EntryRetry:
		return e.State == memory.EntryTaken && one.has(e.TurnID)
	}
	return one.tells(e)
}

// count makes the numbers and the state of a copied thread those of its rows.
func (f *fork) count(one *forkThread) {
	t := one.t
	t.At, t.Dirty, t.LastEntry = max(one.at, one.src.CreatedMs), true, one.taken
	if parent := f.threads[one.src.ParentThreadID]; parent != nil {
		parent.t.LastChild = max(parent.t.LastChild, t.Ordinal)
	}
	for _, src := range one.turns {
		turn := f.Turn(f.newTurn(src.ID))
		if src == one.open {
			f.reopen(one, turn)
		} else {
			t.Status, t.Reason = turn.Outcome, ""
			if turn.Outcome == agent.ThreadFailed {
				t.Reason = turn.Reason
			}
			t.TotalTimeMs += turn.ClosedMs - turn.OpenedMs
			if t.Kind == agent.KindSubAgent {
				t.Summary = rows.Short(turn.Answer, rules.SummaryLength)
			}
		}
		use := turn.Usage
		use.ToolCalls = 0
		t.Count(use)
		t.LastTurn, t.TaskID = turn.N, cmp.Or(turn.TaskID, t.TaskID)
	}
	if one.message == one.src.LastMessage {
		t.ContextWindow = one.src.ContextWindow
	} else if use := one.lastUse(); use != nil {
		t.ContextWindow = agent.ContextWindow{Prompt: use.PromptTokens, Completion: use.CompletionTokens, Total: rules.OneRequest(*use).TotalTokens}
	}
	for _, e := range one.entries {
		if e.Kind == memory.EntryAssign && f.calls[e.CallID] != nil {
			t.TaskID = f.newID(e.TaskID) // the one that was ordered last, whether or not a turn began it
			if one.waits(e) && !one.has(e.TurnID) {
				t.Waiting++
			}
		}
	}
	summaries := rows.Find(f, (*rows.Summary).Targets, nil, rows.SelectSummary+` WHERE thread_id = ? ORDER BY last_seq, created_at, step`, t.ID)
	for _, s := range summaries {
		t.Compactions++
		if s.Text != "" {
			t.SummaryFrom, t.SummaryTo = s.ReplacesFrom, s.ReplacesTo
		}
	}
	t.Loaded()
}

// lastUse is what the last model call of the copied part used.
func (one *forkThread) lastUse() *agent.Usage {
	for _, m := range slices.Backward(one.messages) {
		if m.Usage != nil {
			return m.Usage
		}
	}
	return nil
}

// reopen makes a turn what it was when its last copied message was saved.
func (f *fork) reopen(one *forkThread, turn *rows.Turn) {
	id := one.open.ID
	one.t.Status = agent.ThreadRunning
	turn.State, turn.Outcome, turn.Reason, turn.ErrorCode, turn.Error, turn.Answer = memory.TurnOpen, "", "", "", "", ""
	turn.Steps, turn.Saved, turn.Delegations, turn.Usage = one.saved, one.saved, 0, agent.Usage{}
	turn.CancelMs, turn.CancelBy, turn.ClosedMs, turn.Closed, turn.Dirty = 0, "", 0, "", true
	if turn.AnswerSeq > one.message {
		turn.AnswerSeq = 0
	}
	for _, m := range one.messages {
		if m.TurnID == id && m.Usage != nil {
			use := rules.OneRequest(*m.Usage)
			use.ToolCalls = int64(len(m.ToolCalls))
			turn.Usage = turn.Usage.Add(use)
		}
	}
	for _, s := range rows.Find(f, (*rows.Summary).Targets, nil, rows.SelectSummary+` WHERE turn_id = ?`, turn.ID) {
		turn.Usage = turn.Usage.Add(rows.ViewSummary(s).Usage)
	}
	for _, c := range one.calls {
		if c.TurnID == id && c.ChildTurn != "" && !c.Background {
			turn.Delegations++
		}
	}
	for _, e := range one.entries {
		counts := e.Kind == memory.EntryChild && e.State == memory.EntryTaken && e.DelegatorTurn == id && f.turns[e.ChildTurn] != nil
		if counts && (one.tells(e) || !e.Background && f.calls[e.CallID] != nil) {
			turn.Usage = turn.Usage.Add(f.turns[e.ChildTurn].Usage)
		}
	}
}
