package agent

import (
	"fmt"
	"strings"
	"time"
)

// SpecialistAgentResult is the end of a sub-agent's turn as its delegator reads it.
type SpecialistAgentResult struct {
	AgentType string
	AgentID   string
	ThreadID  string
	// Status is ThreadCompleted, ThreadFailed or ThreadCancelled.
	Status   ThreadStatus
	Reason   Reason
	Error    string
	Duration time.Duration
	Usage    Usage
	Answer   string
	// Background means that nobody waited: the text is a message, not a result.
	Background bool
	// StartedBy is the agent that started this one, where somebody else reads
	// this, and Through the sub-agent of that reader that leads to it. Both are
	// agent ids; they are the same if that sub-agent started it.
	StartedBy string
	Through   string
}

// Ending is the end in a word or two: success, timeout, terminated, …
func (o SpecialistAgentResult) Ending() string {
	switch {
	case o.Status == ThreadCompleted:
		return "success"
	case o.Status == ThreadCancelled:
		return "cancelled"
	case o.Reason == "" || o.Reason == ReasonError:
		return "failed"
	case o.Reason == ReasonTimeout || o.Reason == ReasonTerminated || o.Reason == ReasonCancelled:
		return string(o.Reason)
	}
	return "failed (" + string(o.Reason) + ")"
}

// ErrorReason is the reason of the tool result that reports this end.
func (o SpecialistAgentResult) ErrorReason() ErrorReason {
	switch o.Ending() {
	case "success":
		return ""
	case "timeout":
		return ErrTimeout
	case "cancelled", "terminated":
		return ErrAborted
	}
	return ErrUnknown
}

// DelegationResultFormatter words what a delegator's model reads about a sub-agent's
// turn.
type DelegationResultFormatter struct{}

// Result tells of the end of a sub-agent's turn: which agent, how it ended, what it
// cost, what it said. The thread id lets the model resume the same sub-agent. A
// success with an empty answer is still a success.
func (DelegationResultFormatter) Result(o SpecialistAgentResult) string {
	var b strings.Builder
	if o.Background {
		fmt.Fprintf(&b, "[Background agent %s ended: %s]\n", o.AgentType, o.Ending())
	} else {
		fmt.Fprintf(&b, "[Agent %s: %s]\n", o.AgentType, o.Ending())
	}
	fmt.Fprintf(&b, "agent id: %s\nthread: %s\nstatus: %s\n", o.AgentID, o.ThreadID, o.Ending())
	if o.StartedBy != "" {
		fmt.Fprintf(&b, "started by: %s\n", o.StartedBy)
	}
	fmt.Fprintf(&b, "duration: %s, tool calls: %d, tokens: %d, price: $%.4f\n",
		roundDuration(o.Duration), o.Usage.ToolCalls, o.Usage.TotalTokens, o.Usage.Price)
	if o.Status != ThreadCompleted {
		fmt.Fprintf(&b, "\n%s\n", delegationFailure(o))
		if o.Answer != "" {
			fmt.Fprintf(&b, "\nText up to there (incomplete):\n%s\n", o.Answer)
		}
		return strings.TrimRight(b.String(), "\n")
	}
	if strings.TrimSpace(o.Answer) == "" {
		b.WriteString("\nThe agent finished successfully without a text.\n")
	} else {
		b.WriteString("\n" + o.Answer + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

func delegationFailure(o SpecialistAgentResult) string {
	var what string
	switch o.Ending() {
	case "cancelled":
		what = "The agent was cancelled before it finished."
	case "timeout":
		what = "The agent ran out of time before it finished."
	case "terminated":
		what = "The agent's run was terminated from outside before it finished."
	default:
		what = "The agent failed before it finished."
	}
	if o.Error != "" {
		what += " Error: " + sentence(o.Error)
	}
	switch o.StartedBy {
	case "":
		return what + " Its thread is kept: resume it to go on from there."
	case o.Through:
		return what + " Its thread is kept. Only the agent that started it can resume it: to go on from there, resume " + o.StartedBy + " and tell it to."
	}
	return what + " Its thread is kept. Only the agent that started it can resume it: to go on from there, resume " + o.Through +
		" and tell it to have " + o.StartedBy + " do that."
}

// Seen is the report of an end that its reader has read with task_output already.
func (DelegationResultFormatter) Seen(o SpecialistAgentResult) string {
	return fmt.Sprintf("[Background agent %s ended: %s]\nagent id: %s\nthread: %s\nstatus: %s\n\nYou have read its result with task_output already.",
		o.AgentType, o.Ending(), o.AgentID, o.ThreadID, o.Ending())
}

func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}

// Started is the result of a call that delegated in the background.
func (DelegationResultFormatter) Started(agentType, agentID, threadID string) string {
	return fmt.Sprintf("[Agent %s started in the background]\nagent id: %s\nthread: %s\nstatus: running\n\n"+
		"You will be told when it ends. task_output reads what it has so far.", agentType, agentID, threadID)
}

// Unstarted tells of a sub-agent that was dropped before it began.
func (DelegationResultFormatter) Unstarted(agentID, threadID string) string {
	return fmt.Sprintf("agent id: %s\nthread: %s\n\nThe agent had not begun. Resume it to give it the task again.", agentID, threadID)
}

// Texts of refused delegations. Each says what is the limit and what to do instead.

// RefuseDisabled says that the depth limit is 0.
func RefuseDisabled() string {
	return "Delegation refused: delegation is disabled here (depth limit 0). Do the work yourself."
}

// RefuseDepth says that the new sub-agent would be too deep.
func RefuseDepth(depth, limit int) string {
	return fmt.Sprintf("Delegation refused: the new agent would be at depth %d and the depth limit is %d. Do the work yourself.", depth, limit)
}

// RefuseFanOut says that too many sub-agents of this thread are open.
func RefuseFanOut(open, limit int) string {
	return fmt.Sprintf("Delegation refused: %d sub-agents of this thread are at work and the limit is %d. Wait for one to end, or do the work yourself.", open, limit)
}

// RefuseDescendants says that the tree has too many sub-agents.
func RefuseDescendants(count, limit int) string {
	return fmt.Sprintf("Delegation refused: %d sub-agents were made since the last message of a person and the limit is %d. Resume one of them, or do the work yourself.", count, limit)
}

// RefuseBudget says which budget of a tree is used up; "" if none is. A limit
// of 0 is none.
func RefuseBudget(tokens, maxTokens int64, price, maxPrice float64, took, maxTime time.Duration) string {
	var what string
	switch {
	case maxTokens > 0 && tokens >= maxTokens:
		what = fmt.Sprintf("%d tokens are used and the limit is %d", tokens, maxTokens)
	case maxPrice > 0 && price >= maxPrice:
		what = fmt.Sprintf("$%.4f are spent and the limit is $%.4f", price, maxPrice)
	case maxTime > 0 && took >= maxTime:
		what = fmt.Sprintf("models and tools took %s and the limit is %s", roundDuration(took), maxTime)
	default:
		return ""
	}
	return "the budget of this conversation's agents is used up: " + what + "; a new message or a retry renews it"
}

// RefuseResumeUnknown says that there is no such sub-agent.
func RefuseResumeUnknown(id string) string {
	return fmt.Sprintf("Resume refused: no sub-agent %q was found. Use the thread id or agent id from an earlier result, or leave resume out to start a new agent.", id)
}

// RefuseResumeForeign says that the sub-agent belongs to another thread.
func RefuseResumeForeign(id string) string {
	return fmt.Sprintf("Resume refused: %q is not a sub-agent of this thread. Only the thread that started an agent may resume it.", id)
}

// RefuseResumeType says that the sub-agent is of another type.
func RefuseResumeType(id, has, asked string) string {
	return fmt.Sprintf("Resume refused: %q is an agent of type %s, not %s. Name the agent %s to resume it.", id, has, asked, has)
}

// RefuseTool says that the approval policy forbids a tool.
func RefuseTool(name string) string {
	return fmt.Sprintf("Tool %s was not run: the approval policy denies it.", name)
}

// TextLost says that a repeatable tool killed its worker too often.
func TextLost(times int) string {
	return fmt.Sprintf("The process that ran this tool died %d times before it could report a result. It is not run again.", times)
}

// roundDuration keeps a duration readable: whole seconds above a minute.
func roundDuration(d time.Duration) time.Duration {
	if d >= time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
