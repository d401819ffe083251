package rows

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// The columns of these rows, and the SELECT that reads them; a condition follows.
const (
	askColumns = `id,kind,thread_id,root_id,user_id,turn_id,step,call_id,agent,task_id,task,body,outcome,named,approved,answer,message_id,settled_by,settled_at,created_at`
	SelectAsk  = `SELECT ` + askColumns + ` FROM asks`
	// AskNamed is a condition: an ask has an id, or is about a call.
	AskNamed = `(id = ? OR id = ? OR id = (SELECT approval_id FROM tool_calls WHERE id = ? AND approval_id <> ''))`
	// OrderAsks is that of creation; the ids of a step's questions end with the numbers of its calls.
	OrderAsks   = ` ORDER BY created_at, LENGTH(id), id`
	AskApproval = "approval" // a decision on calls
	AskQuestion = "question" // an answer to ask_user
	// OutcomeAborted settles what a turn still asks when it ends.
	OutcomeAborted = string(memory.QuestionAborted)
)

// InsertAsk inserts such a row; its values follow the order of the columns.
var InsertAsk = InsertSQL("asks", askColumns)

// Ask is what an agent asks a person. The first who settles it wins.
type Ask struct {
	ID, Kind, Thread, Root, User, Turn string
	Step                               int
	Call                               string // of a question; the calls of an approval name it
	Agent, TaskID, Task, Text          string
	Outcome                            string // empty while it is open
	Named                              string // JSON: ids of the calls decided on; of a question its options
	Approved                           string // JSON: call ids
	Answer                             string // of a question, or the instruction of an edit
	Message                            string // the one that answered, if one did
	By                                 string
	SettledMs, CreatedMs               int64
}

// Targets are the columns, to read and to write them.
func (a *Ask) Targets() []any {
	return []any{&a.ID, &a.Kind, &a.Thread, &a.Root, &a.User, &a.Turn, &a.Step, &a.Call, &a.Agent, &a.TaskID, &a.Task, &a.Text,
		&a.Outcome, &a.Named, &a.Approved, &a.Answer, &a.Message, &a.By, &a.SettledMs, &a.CreatedMs}
}

// Approval is an ask for a decision as callers see it.
func (a *Ask) Approval() memory.Approval {
	v := memory.Approval{
		ID: a.ID, ThreadID: a.Thread, RootThread: a.Root, TurnID: a.Turn, Step: a.Step, Agent: a.Agent, Decision: a.Outcome,
		DecidedBy: a.By, DecidedAt: StampOrNil(a.SettledMs), CreatedAt: Stamp(a.CreatedMs),
	}
	v.Instruction, v.Arguments = a.Carried()
	Check(Decode(a.Approved, &v.Approved))
	return v
}

// Carried is what a decision on an approval said besides its verdict: the instruction of
// an edit, or a person's arguments by call.
func (a *Ask) Carried() (instruction string, args map[string]json.RawMessage) {
	if a.Outcome == memory.Approve && json.Unmarshal([]byte(a.Answer), &args) == nil {
		return "", args
	}
	return a.Answer, nil
}

// Question is an ask for an answer as callers see it.
func (a *Ask) Question() memory.Question {
	return memory.Question{
		ID: a.ID, ThreadID: a.Thread, RootThread: a.Root, TurnID: a.Turn, Step: a.Step, CallID: a.Call, Agent: a.Agent,
		TaskID: a.TaskID, Task: a.Task, Text: a.Text, Options: a.Options(), State: memory.QuestionState(cmp.Or(a.Outcome, string(memory.QuestionOpen))),
		Answer: a.Answer, MessageID: a.Message, AnsweredBy: a.By, AnsweredAt: StampOrNil(a.SettledMs), CreatedAt: Stamp(a.CreatedMs),
	}
}

// Options are the answers that a question offers.
func (a *Ask) Options() (list []string) {
	Check(Decode(a.Named, &list))
	return list
}

// Chosen is the answer that a text gives to a question: an option, if it is the number of one.
func (a *Ask) Chosen(text string) string {
	text = Clean(text)
	list, word := a.Options(), strings.TrimSpace(text)
	if n, err := strconv.Atoi(word); err == nil && n > 0 && n <= len(list) && !slices.Contains(list, word) {
		return list[n-1]
	}
	return text
}

// SettledAlready is why nobody can settle it any more.
func (a *Ask) SettledAlready() error {
	at := Stamp(a.SettledMs).Format(time.RFC3339)
	switch {
	case a.Outcome == OutcomeAborted:
		return agent.Errorf(agent.CodeConflict, "%s %s was settled when its turn ended at %s: nothing waits for it", a.Kind, a.ID, at)
	case a.Kind == AskQuestion:
		return agent.Errorf(agent.CodeConflict, "question %s was answered already: %q by %s at %s", a.ID, Short(a.Answer, TopicLength), cmp.Or(a.By, "unknown"), at)
	}
	return agent.Errorf(agent.CodeConflict, "approval %s was decided already: %s by %s at %s", a.ID, a.Outcome, cmp.Or(a.By, "unknown"), at)
}

// Asks finds asks in order of creation.
func Asks(q Rower, where string, args ...any) []*Ask {
	return Find(q, (*Ask).Targets, nil, SelectAsk+` WHERE `+where+OrderAsks, args...)
}

// About is an approval with the calls that it is about.
func (a *Ask) About(calls []*Call) memory.Approval {
	v := a.Approval()
	for _, c := range calls {
		if c.ApprovalID == a.ID {
			v.ToolCalls = append(v.ToolCalls, c.View())
		}
	}
	return v
}

// QuestionID is the id of the one question that a call can ask.
func QuestionID(callID string) string { return "ques_" + strings.TrimPrefix(callID, "call_") }
