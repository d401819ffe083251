package verify

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func (c *check) thread(one *rows) {
	c.sequence(one)
	c.pairs(one)
	c.turns(one)
	c.questions(one)
	c.userMessages(one)
	c.tools(one)
	c.links(one)
	if one.thread.Kind == agent.KindSubAgent {
		c.creation(one)
		c.childEnds(one)
	}
}

// sequence is rule 4. Each gap is told once.
func (c *check) sequence(one *rows) {
	id, want := one.thread.ID, int64(1)
	seen := map[string]bool{}
	for _, m := range one.messages {
		if m.Seq != want {
			c.add(RuleSequence, id, "message %s has seq %d, want %d", m.ID, m.Seq, want)
		}
		if seen[m.ID] {
			c.add(RuleSequence, id, "message id %s is there twice", m.ID)
		}
		seen[m.ID], want = true, m.Seq+1
	}
	want = 1
	for _, e := range one.events {
		if e.Seq != want {
			c.add(RuleSequence, id, "event %s has seq %d, want %d", e.Type, e.Seq, want)
		}
		want = e.Seq + 1
	}
}

// pairs is rule 3.
func (c *check) pairs(one *rows) {
	id := one.thread.ID
	for i := 0; i < len(one.messages); i++ {
		m := one.messages[i]
		if m.Role == agent.RoleTool {
			c.add(RulePairs, id, "result %s of call %s does not follow its assistant message", m.ID, m.ToolCallID)
		}
		if len(m.ToolCalls) == 0 {
			continue
		}
		wanted := map[string]bool{}
		for _, call := range m.ToolCalls {
			wanted[call.ID] = true
		}
		for i+1 < len(one.messages) && one.messages[i+1].Role == agent.RoleTool && wanted[one.messages[i+1].ToolCallID] {
			i++
			delete(wanted, one.messages[i].ToolCallID)
		}
		for _, call := range m.ToolCalls {
			if wanted[call.ID] {
				c.add(RulePairs, id, "call %s of message %s has no result directly after it", call.ID, m.ID)
			}
		}
	}
}

// turns is rule 5.
func (c *check) turns(one *rows) {
	id, open := one.thread.ID, 0
	for _, t := range one.turns {
		ends := one.ends[t.ID]
		switch {
		case t.State == memory.TurnClosed && ends != 1:
			c.add(RuleOpenTurn, id, "closed turn %s has %d done or error events", t.ID, ends)
		case t.State == memory.TurnClosed:
		case ends != 0:
			c.add(RuleOpenTurn, id, "open turn %s has a done or error event", t.ID)
		case t.ID != one.thread.OpenTurnID:
			c.add(RuleOpenTurn, id, "turn %s is open, but the thread's open turn is %q", t.ID, one.thread.OpenTurnID)
		}
		if t.State != memory.TurnClosed {
			open++
		}
	}
	switch {
	case open > 1:
		c.add(RuleOpenTurn, id, "%d turns are open", open)
	case open == 0 && one.thread.OpenTurnID != "":
		c.add(RuleOpenTurn, id, "the thread's open turn %s is not open", one.thread.OpenTurnID)
	case open == 1 && (one.thread.Status.Final() || one.thread.Status == agent.ThreadPending):
		c.add(RuleOpenTurn, id, "a turn is open, but the thread is %s", one.thread.Status)
	case open == 0 && !one.thread.Status.Final() && one.thread.Status != agent.ThreadPending:
		c.add(RuleOpenTurn, id, "no turn is open, but the thread is %s", one.thread.Status)
	}
}

// questions belongs to rule 5: only an open turn waits for an answer, and what
// was answered is the result of the call that asked.
func (c *check) questions(one *rows) {
	id := one.thread.ID
	for _, q := range one.asked {
		call := one.finished[q.CallID]
		switch {
		case q.State == memory.QuestionOpen && q.TurnID != one.thread.OpenTurnID:
			c.add(RuleOpenTurn, id, "question %s waits for an answer, but its turn is closed", q.ID)
		case q.State == memory.QuestionOpen && call.Status.Final():
			c.add(RuleOpenTurn, id, "question %s waits for an answer, but its call %s has a result", q.ID, q.CallID)
		case q.State == memory.QuestionOpen && one.thread.Status != agent.ThreadWaitingForUser && one.thread.Status != agent.ThreadWaitingForApproval:
			c.add(RuleOpenTurn, id, "question %s waits for an answer, but the thread is %s", q.ID, one.thread.Status)
		case q.State == memory.QuestionAnswered && call.Result != q.Answer:
			c.add(RuleOpenTurn, id, "the answer to question %s is not the result of its call %s", q.ID, q.CallID)
		}
	}
}

// userMessages is rule 6: a message taken from the inbox stands in the thread
// once, under its own id or the first of the turn that it was given.
func (c *check) userMessages(one *rows) {
	id := one.thread.ID
	ids, said := map[string]bool{}, map[string]int{}
	for _, m := range one.messages {
		if m.Role == agent.RoleUser {
			said[m.ID]++
		}
	}
	for _, e := range one.inbox {
		if e.Kind != memory.EntryMessage {
			continue
		}
		if ids[e.ID] {
			c.add(RuleMessage, id, "client message %s stands in the inbox twice", e.ID)
		}
		ids[e.ID] = true
		want := 0
		if e.State == memory.EntryTaken {
			want = 1
		}
		n := said[e.ID]
		if first := agent.MessageID(e.TurnID, 0); first != e.ID {
			n += said[first]
		}
		if n != want {
			c.add(RuleMessage, id, "client message %s (%s) stands in the thread %d times, want %d", e.ID, e.State, n, want)
		}
	}
	c.sources(one)
	byTurn := map[string]int{}
	for _, m := range one.messages {
		if m.Role == agent.RoleUser && (m.Source == "" || m.Source == "user") {
			byTurn[m.TurnID]++
		}
	}
	for turn, n := range byTurn {
		if n > 1 {
			c.add(RuleMessage, id, "turn %s has %d messages of its user", turn, n)
		}
	}
}

// sources belongs to rule 6: a task and the report of a sub-agent's end say whose
// they are.
func (c *check) sources(one *rows) {
	from := map[string]string{}
	for _, e := range one.inbox {
		switch {
		case e.State != memory.EntryTaken:
		case e.Kind == memory.EntryAssign:
			from[agent.MessageID(e.TurnID, 0)] = "agent:" + e.DelegatorThread
		case e.Kind == memory.EntryChild && e.Background:
			from[agent.MessageID(e.TurnID, 0)] = "agent:" + e.ChildThread
		}
	}
	for _, m := range one.messages {
		if want := from[m.ID]; want != "" && m.Source != want {
			c.add(RuleMessage, one.thread.ID, "message %s is from %q, but its inbox entry from %q", m.ID, m.Source, want)
		}
	}
}

// tools is rule 8.
func (c *check) tools(one *rows) {
	id := one.thread.ID
	calls := map[string]bool{}
	for _, call := range one.calls {
		calls[call.ID] = true
		responses := one.responses[call.ID]
		want := 0
		if call.Status.Final() {
			want = 1
		}
		if responses != want {
			c.add(RuleToolOnce, id, "call %s (%s) has %d results in the log, want %d", call.ID, call.Status, responses, want)
		}
		// A delegation gets its event when it is opened or refused.
		n := one.announced[call.ID]
		if n > 1 || n == 0 && call.Status.Final() {
			c.add(RuleToolOnce, id, "call %s (%s) has %d tool_call events, want 1", call.ID, call.Status, n)
		}
	}
	for _, e := range one.events {
		if e.Type == agent.EventToolResponse && !calls[e.call] {
			c.add(RuleToolOnce, id, "event %d is the result of call %q, which does not exist", e.Seq, e.call)
		}
	}
}

// links is rule 1.
func (c *check) links(one *rows) {
	for _, e := range one.events {
		if e.link == "" {
			continue
		}
		child := c.get(e.link)
		switch {
		case child != nil && child.broken:
		case child == nil:
			c.add(RuleLink, one.thread.ID, "event %d (%s) names thread %s, which does not exist", e.Seq, e.Type, e.link)
		case child.thread.CreatedAt.After(e.At):
			c.add(RuleLink, one.thread.ID, "event %d (%s) is older than the thread %s that it names", e.Seq, e.Type, e.link)
		case child.thread.ParentThreadID != one.thread.ID:
			c.add(RuleLink, one.thread.ID, "event %d (%s) names thread %s, whose parent is %q", e.Seq, e.Type, e.link, child.thread.ParentThreadID)
		}
	}
}

// creation is rule 2.
func (c *check) creation(one *rows) {
	th := one.thread
	if th.AgentID != "" && agent.SubThreadID(th.AgentType, th.AgentID) != th.ID {
		c.add(RuleCreation, th.ID, "its agent id is %s and its agent %s: these belong to another thread", th.AgentID, th.AgentType)
	}
	parent := c.get(th.ParentThreadID)
	if parent != nil && parent.broken {
		return
	}
	creating := 0
	if parent != nil {
		creating = parent.created[made{th.ParentToolCallID, th.ID}]
	}
	if creating != 1 {
		c.add(RuleCreation, th.ID, "%d tool_call events of %q created it, want 1", creating, th.ParentThreadID)
	}
	turnOf := map[string]string{}
	for _, t := range one.turns {
		if t.EntryKind != memory.EntryAssign {
			continue
		}
		tasks := 0
		delegator := c.get(t.DelegatorThread)
		if delegator != nil && delegator.broken {
			continue
		}
		if delegator != nil {
			tasks = delegator.ordered[made{t.TaskID, th.ID}]
		}
		if tasks != 1 {
			c.add(RuleCreation, th.ID, "turn %s has %d tasks in %q, want 1", t.ID, tasks, t.DelegatorThread)
		}
		if delegator != nil {
			c.told(t, delegator)
		}
		if other, ok := turnOf[t.TaskID]; ok {
			c.add(RuleCreation, th.ID, "turns %s and %s share task %s", t.ID, other, t.TaskID)
		}
		turnOf[t.TaskID] = t.ID
	}
}

// told belongs to rule 12: the delegator's log tells once that a turn of its sub-agent
// began, and once that it ended, unless nobody waited for that.
func (c *check) told(t memory.Turn, delegator *rows) {
	link := made{t.DelegatorCall, t.ThreadID}
	if n := delegator.began[link]; n != 1 {
		c.add(RuleAgree, t.ThreadID, "turn %s has %d sub_agent_started events in %q, want 1", t.ID, n, t.DelegatorThread)
	}
	closed := t.State == memory.TurnClosed
	n := delegator.told[link]
	if n > 1 || n == 1 && !closed || n == 0 && closed && (t.Background || delegator.endsTaken[t.ID]) {
		c.add(RuleAgree, t.ThreadID, "turn %s (%s) has %d sub_agent_completed events in %q", t.ID, t.State, n, t.DelegatorThread)
	}
}

// childEnds is rule 7.
func (c *check) childEnds(one *rows) {
	for _, t := range one.turns {
		if t.EntryKind != memory.EntryAssign {
			continue
		}
		entries, unknown := 0, false
		var delegator *rows
		seen := map[string]bool{} // a damaged store may go in circles
		for id := t.DelegatorThread; id != "" && !seen[id]; {
			seen[id] = true
			above := c.get(id)
			if above == nil {
				break
			}
			if unknown = above.broken; unknown {
				break
			}
			if id == t.DelegatorThread {
				delegator = above
			}
			entries += above.childEnds[t.ID]
			id = above.thread.ParentThreadID
		}
		switch {
		case unknown:
		case t.State != memory.TurnClosed:
			if entries != 0 {
				c.add(RuleChildEnd, one.thread.ID, "turn %s is open, but its end stands in an inbox", t.ID)
			}
		case entries > 1:
			c.add(RuleChildEnd, one.thread.ID, "the end of turn %s stands in %d inbox entries", t.ID, entries)
		case entries == 0 && (t.Background || !settled(delegator, t.DelegatorCall)):
			c.add(RuleChildEnd, one.thread.ID, "the end of turn %s stands nowhere in %s", t.ID, t.DelegatorThread)
		}
	}
}

// settled reports whether a call has its result. The ends of descendants that
// were closed with their delegator count as taken.
func settled(delegator *rows, callID string) bool {
	return delegator != nil && delegator.finished[callID].ID != ""
}
