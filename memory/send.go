package memory

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
)

// MaxRequestID bounds the ids that senders give to messages and requests, in bytes.
const MaxRequestID = 200

// reservedID matches the ids this program makes itself: a client's id of that
// shape could collide with one in its own thread.
var reservedID = regexp.MustCompile(`^(t[0-9a-f]{16}(\.[0-9]+)?|call_.*)$`)

// Unsent says, where it is not known whether a message was stored, how to send it
// again: under its own ids, so that it is stored once.
func (r SendRequest) Unsent(err error) error {
	if agent.CodeOf(err) != agent.CodeUnavailable {
		return err
	}
	where := r.ThreadID
	if where == "" {
		where = agent.MainThreadID(r.SessionID, r.ConversationID)
	}
	return agent.Wrap(err, agent.CodeUnavailable, "message %s to %s: if you send it again, name thread and message id, and it is stored once", r.MessageID, where)
}

// Check says what is wrong with a message and fills what its sender left out, except
// for ids of its own. It is the one place for these rules: every store calls it.
func (r *SendRequest) Check() error {
	switch {
	case r.MessageID == "":
		return agent.Errorf(agent.CodeInvalid, "the message has no id: give each message an id of its own, so that sending it again is safe")
	case len(r.MessageID) > MaxRequestID:
		return agent.Errorf(agent.CodeInvalid, "message id is %d characters long, at most %d are possible", len(r.MessageID), MaxRequestID)
	case !utf8.ValidString(r.MessageID) || strings.Contains(r.MessageID, "\x00") || reservedID.MatchString(r.MessageID):
		return agent.Errorf(agent.CodeInvalid, "message id %q is not possible: ids like t0123456789abcdef and call_… are made by the store, and an id must be UTF-8 text", r.MessageID)
	case strings.TrimSpace(r.Content.String()) == "" && !slices.ContainsFunc(r.Content.Parts, func(p agent.Part) bool { return p.Type != "text" }):
		return agent.Errorf(agent.CodeInvalid, "the message is empty")
	}
	if err := agent.CheckContent(r.Content); err != nil {
		return err
	}
	if err := r.checkChoices(); err != nil {
		return err
	}
	return r.checkTarget()
}

// checkChoices checks what the sender chose: when, which schema, which agent.
func (r *SendRequest) checkChoices() error {
	switch r.WhenBusy {
	case "", Queue, Steer, Reject:
	default:
		return agent.Errorf(agent.CodeInvalid, "when-busy %q is not valid: use queue, steer or reject", r.WhenBusy)
	}
	if len(r.AnswerSchema) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, r.AnswerSchema); err != nil {
			return agent.Errorf(agent.CodeInvalid, "the schema of the answer is not JSON: %v", err)
		}
		r.AnswerSchema = compact.Bytes()
		switch r.WhenBusy {
		case Steer:
			return agent.Errorf(agent.CodeInvalid, "a message with a schema cannot be steered into a running turn: queue it")
		case "":
			r.WhenBusy = Queue // it is no answer to a question
		}
	}
	if r.Agent == "" {
		return nil
	}
	return agent.CheckAgentType(r.Agent)
}

// checkTarget checks where the message goes.
func (r *SendRequest) checkTarget() error {
	if r.ThreadID != "" {
		if r.SessionID != "" || r.ConversationID != "" {
			return agent.Errorf(agent.CodeInvalid, "a thread (%s) replaces session and conversation: give one or the other", r.ThreadID)
		}
		_, err := agent.ParseThreadID(r.ThreadID)
		return err
	}
	if r.UserID == "" {
		return agent.Errorf(agent.CodeInvalid, "the message names no user: a session belongs to the user who makes it")
	}
	if r.ConversationID == "" {
		r.ConversationID = agent.DefaultConversation
	}
	if err := agent.CheckName("session", r.SessionID); err != nil {
		return err
	}
	return agent.CheckName("conversation", r.ConversationID)
}
