package view

import (
	"cmp"
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

// Statuses of a Reply beside those of a thread.
const (
	// StatusStored means that the message is safe but nobody runs it yet.
	StatusStored = "stored"
	// StatusQueued means that the message waits for the turn before it.
	StatusQueued = "queued"
	// StatusDropped means that a cancel dropped the message before its turn.
	StatusDropped = "dropped"
	// StatusAnswered means that the message answered the question of a sub-agent in
	// the background: there is no turn to wait for.
	StatusAnswered = "answered"
)

// Reply is what became of a message.
type Reply struct {
	SessionID      string `json:"sessionId"`
	ConversationID string `json:"conversationId"`
	ThreadID       string `json:"threadId"`
	TurnID         string `json:"turnId"`
	MessageID      string `json:"messageId"`
	// Status is that of the turn (running, waiting_for_approval, waiting_for_user,
	// completed, failed, cancelled), or one of the Status constants.
	Status    string       `json:"status"`
	Reason    agent.Reason `json:"reason,omitempty"`
	ErrorCode string       `json:"errorCode,omitempty"`
	Error     string       `json:"error,omitempty"`
	Response  string       `json:"response"`
	Usage     agent.Usage  `json:"usage"`
	// Pending and Questions are what the turn waits for from people.
	Pending   []ApprovalRequest `json:"pending,omitempty"`
	Questions []QuestionRequest `json:"questions,omitempty"`
	// Waits are the model calls of the thread's tree that are made again later, if
	// the turn runs; only the status of a turn has them.
	Waits []agent.ModelWait `json:"waits,omitempty"`
	// Answered is the question that the message answered, if it did.
	Answered *QuestionRequest `json:"answered,omitempty"`
	// State is that of the inbox entry when it was sent.
	State    memory.EntryState `json:"state,omitempty"`
	Repeated bool              `json:"repeated,omitempty"`
	Note     string            `json:"note,omitempty"`
}

// Under names the thread and the turn that a reply is about.
func Under(threadID, turnID string) Reply {
	r := Reply{ThreadID: threadID, TurnID: turnID}
	if p, err := agent.ParseThreadID(threadID); err == nil {
		r.SessionID, r.ConversationID = p.SessionID, p.ConversationID
	}
	return r
}

// Moving reports whether the turn runs, or waits for the one before it.
func (r Reply) Moving() bool {
	return r.Status == StatusQueued || r.Status == string(agent.ThreadRunning)
}

// Status tells where a message's turn stands, without waiting.
func (v *Views) Status(ctx context.Context, threadID, turnID string) (Reply, error) {
	r, _, err := v.Look(ctx, threadID, turnID, false)
	if err == nil && r.Status == string(agent.ThreadRunning) {
		r.Waits, err = v.ModelWaits(ctx, threadID)
	}
	return r, err
}

// Look reads the state of a turn; done means that there is nothing to wait for. Who is
// patient waits for people too, so that what they have to do is left out.
func (v *Views) Look(ctx context.Context, threadID, turnID string, patient bool) (r Reply, done bool, err error) {
	r, err = read(ctx, v, func(r reading) (reply Reply) {
		reply, done = r.look(r.thread(threadID), turnID, patient)
		return reply
	})
	return r, done || err != nil, err
}

func (r reading) look(t agent.Thread, turnID string, patient bool) (reply Reply, done bool) {
	reply = Under(t.ID, turnID)
	reply.Status = StatusQueued
	turn, there := steps.Found(r.store.Turn(r.ctx, turnID))
	if !there || turn.ThreadID != t.ID {
		turn = r.turnOfEntry(&reply)
	}
	if reply.Status == StatusDropped {
		return reply, true
	}
	blocked := cmp.Or(turn.ID, t.OpenTurnID)
	if turn.ID != "" {
		reply.MessageID, reply.Usage = turn.MessageID, turn.Usage
		if turn.State == memory.TurnClosed {
			reply.Status, reply.Reason, reply.ErrorCode, reply.Error, reply.Response = string(turn.Outcome), turn.Reason, turn.ErrorCode, turn.Error, turn.Answer
			reply.Note = r.noteCut(turn)
			return reply, true
		}
		reply.Status = string(agent.ThreadRunning)
	}
	if patient || blocked == "" {
		return reply, false
	}
	r.pendingOf(t.RootThreadID, blocked, &reply)
	switch {
	case len(reply.Pending) > 0:
		reply.Status = string(agent.ThreadWaitingForApproval)
	case len(reply.Questions) > 0:
		reply.Status = string(agent.ThreadWaitingForUser)
	}
	return reply, len(reply.Pending)+len(reply.Questions) > 0
}

// noteCut says that a completed turn's answer is cut, if the provider said so.
func (r reading) noteCut(turn memory.Turn) string {
	if turn.Outcome != agent.ThreadCompleted {
		return ""
	}
	all := steps.Must(r.store.Steps(r.ctx, turn.ID))
	if len(all) == 0 || all[len(all)-1].FinishReason != agent.FinishLength {
		return ""
	}
	return agent.AnswerCut().Message
}

// turnOfEntry finds the turn that took a message whose own turn does not exist:
// none yet, or the running one if the message was steered into it.
func (r reading) turnOfEntry(reply *Reply) memory.Turn {
	for _, e := range steps.Must(r.store.Inbox(r.ctx, reply.ThreadID)) {
		if e.TurnID != reply.TurnID {
			continue
		}
		reply.MessageID = e.ID
		switch {
		case e.State == memory.EntryDropped:
			reply.Status = StatusDropped
		case e.State == memory.EntryTaken && e.TakenBy != "" && e.TakenBy != reply.TurnID:
			return steps.Must(r.store.Turn(r.ctx, e.TakenBy))
		}
		return memory.Turn{}
	}
	steps.Check(noTurn(reply.ThreadID, reply.TurnID))
	return memory.Turn{}
}

// pendingOf lists the open approvals and questions that hold up a turn: its own
// and those of its foreground descendants.
func (r reading) pendingOf(root, turnID string, reply *Reply) {
	f := memory.AskFilter{UserID: r.o.UserID, RootThread: root, OpenOnly: true}
	open, asked := steps.Must(r.store.Approvals(r.ctx, f)), steps.Must(r.store.Questions(r.ctx, f))
	for _, a := range open {
		if r.holdsUp(a.TurnID, turnID) {
			reply.Pending = append(reply.Pending, approvalRequest(a))
		}
	}
	for _, q := range asked {
		if r.holdsUp(q.TurnID, turnID) {
			reply.Questions = append(reply.Questions, RequestOf(q))
		}
	}
}

// holdsUp reports whether a turn is another one, or one that it waits for.
func (r reading) holdsUp(below, turnID string) bool {
	for at := below; at != ""; {
		if at == turnID {
			return true
		}
		t := steps.Must(r.store.Turn(r.ctx, at))
		if t.Background {
			return false
		}
		at = t.DelegatorTurn
	}
	return false
}
