package view

import (
	"context"

	"github.com/spool-agents/spool/agent"
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
	t, err := v.Thread(ctx, threadID)
	if err != nil {
		return r, true, err
	}
	r = Under(threadID, turnID)
	r.Status = StatusQueued
	turn, err := v.store.Turn(ctx, turnID)
	if agent.CodeOf(err) == agent.CodeNotFound || err == nil && turn.ThreadID != threadID {
		turn, err = v.turnOfEntry(ctx, &r)
	}
	if err != nil || r.Status == StatusDropped {
		return r, true, err
	}
	if turn.ID != "" {
		r.MessageID, r.Usage = turn.MessageID, turn.Usage
		if turn.State == memory.TurnClosed {
			r.Status, r.Reason, r.ErrorCode, r.Error, r.Response = string(turn.Outcome), turn.Reason, turn.ErrorCode, turn.Error, turn.Answer
			r.Note, err = v.noteCut(ctx, turn)
			return r, true, err
		}
		r.Status = string(agent.ThreadRunning)
	}
	blocked := turn.ID
	if blocked == "" {
		blocked = t.OpenTurnID
	}
	if patient || blocked == "" {
		return r, false, nil
	}
	if err := v.pendingOf(ctx, t.RootThreadID, blocked, &r); err != nil {
		return r, true, err
	}
	switch {
	case len(r.Pending) > 0:
		r.Status = string(agent.ThreadWaitingForApproval)
	case len(r.Questions) > 0:
		r.Status = string(agent.ThreadWaitingForUser)
	}
	return r, len(r.Pending)+len(r.Questions) > 0, nil
}

// noteCut says that a completed turn's answer is cut, if the provider said so.
func (v *Views) noteCut(ctx context.Context, turn memory.Turn) (string, error) {
	if turn.Outcome != agent.ThreadCompleted {
		return "", nil
	}
	steps, err := v.store.Steps(ctx, turn.ID)
	if err != nil || len(steps) == 0 || steps[len(steps)-1].FinishReason != agent.FinishLength {
		return "", err
	}
	return agent.AnswerCut().Message, nil
}

// turnOfEntry finds the turn that took a message whose own turn does not exist:
// none yet, or the running one if the message was steered into it.
func (v *Views) turnOfEntry(ctx context.Context, r *Reply) (memory.Turn, error) {
	inbox, err := v.store.Inbox(ctx, r.ThreadID)
	if err != nil {
		return memory.Turn{}, err
	}
	for _, e := range inbox {
		if e.TurnID != r.TurnID {
			continue
		}
		r.MessageID = e.ID
		switch {
		case e.State == memory.EntryDropped:
			r.Status = StatusDropped
		case e.State == memory.EntryTaken && e.TakenBy != "" && e.TakenBy != r.TurnID:
			return v.store.Turn(ctx, e.TakenBy)
		}
		return memory.Turn{}, nil
	}
	return memory.Turn{}, agent.Errorf(agent.CodeNotFound, "thread %s has no turn %s", r.ThreadID, r.TurnID)
}

// pendingOf lists the open approvals and questions that hold up a turn: its own
// and those of its foreground descendants.
func (v *Views) pendingOf(ctx context.Context, root, turnID string, r *Reply) error {
	open, err := v.store.Approvals(ctx, memory.ApprovalFilter{UserID: v.o.UserID, RootThread: root, OpenOnly: true})
	if err != nil {
		return err
	}
	asked, err := v.store.Questions(ctx, memory.QuestionFilter{UserID: v.o.UserID, RootThread: root, OpenOnly: true})
	if err != nil {
		return err
	}
	for _, a := range open {
		if held, err := v.holdsUp(ctx, a.TurnID, turnID); err != nil {
			return err
		} else if held {
			r.Pending = append(r.Pending, approvalRequest(a))
		}
	}
	for _, q := range asked {
		if held, err := v.holdsUp(ctx, q.TurnID, turnID); err != nil {
			return err
		} else if held {
			r.Questions = append(r.Questions, RequestOf(q))
		}
	}
	return nil
}

// holdsUp reports whether a turn is another one, or one that it waits for.
func (v *Views) holdsUp(ctx context.Context, below, turnID string) (bool, error) {
	for at := below; at != ""; {
		if at == turnID {
			return true, nil
		}
		t, err := v.store.Turn(ctx, at)
		if err != nil || t.Background {
			return false, err
		}
		at = t.DelegatorTurn
	}
	return false, nil
}
