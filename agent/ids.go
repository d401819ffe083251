package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DefaultConversation is the conversation used when none is named.
const DefaultConversation = "default"

// MaxIDLength bounds thread ids: they are Temporal workflow ids, which SQL
// stores limit to 255 characters.
const MaxIDLength = 255

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	agentPattern = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
)

// CheckName checks a session or conversation id.
func CheckName(what, id string) error {
	if namePattern.MatchString(id) {
		return nil
	}
	return Errorf(CodeInvalid, "%s %q is not valid: use a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -", what, id)
}

// CheckAgentType checks the name of an agent.
func CheckAgentType(t string) error {
	if agentPattern.MatchString(t) {
		return nil
	}
	return Errorf(CodeInvalid, "agent type %q is not valid: use 1 to 64 of a-z 0-9 -", t)
}

// MainThreadID is the id of a conversation's own thread.
func MainThreadID(sessionID, conversationID string) string {
	return sessionID + "/" + conversationID
}

// ForkName is the conversation that a fork makes when none is named. It follows
// from the request, so that a repeated request makes no second one.
func ForkName(threadID, requestID string) string { return "fork-" + digest(12, threadID, requestID) }

// SubThreadID is the id of a sub-agent's thread.
func SubThreadID(agentType, agentID string) string { return "agent:" + agentType + ":" + agentID }

// NewAgentID derives a sub-agent's id from the call that made it, so that a
// redelivery cannot make two. created is the stored creation time of that call.
func NewAgentID(agentType string, created time.Time, parentThread, turnID, callID string) string {
	return fmt.Sprintf("%s-%d-%s", agentType, created.UnixMilli(), digest(12, parentThread, turnID, callID))
}

// ThreadOfAgent is the thread of a sub-agent named by its thread id or agent id;
// "" if it can be neither.
func ThreadOfAgent(id string) string {
	if p, err := ParseThreadID(id); err == nil && p.Kind == KindSubAgent {
		return id
	}
	typ := id
	for range 2 {
		typ = typ[:max(0, strings.LastIndexByte(typ, '-'))]
	}
	if CheckAgentType(typ) != nil || strings.ContainsAny(id, "/:") {
		return ""
	}
	return SubThreadID(typ, id)
}

// ParsedThreadID is a thread id taken apart.
type ParsedThreadID struct {
	Kind           ThreadKind
	SessionID      string // main threads
	ConversationID string // main threads
	AgentType      string // sub-agents
	AgentID        string // sub-agents
}

// ParseThreadID takes a thread id apart and refuses what could not be one.
func ParseThreadID(id string) (ParsedThreadID, error) {
	bad := Errorf(CodeInvalid, "thread id %q is not valid: want SESSION/CONVERSATION or agent:TYPE:ID", id)
	if len(id) > MaxIDLength {
		return ParsedThreadID{}, Errorf(CodeInvalid, "thread id is %d characters long, at most %d are possible", len(id), MaxIDLength)
	}
	if rest, ok := strings.CutPrefix(id, "agent:"); ok {
		typ, agentID, ok := strings.Cut(rest, ":")
		if !ok || CheckAgentType(typ) != nil || agentID == "" || strings.ContainsAny(agentID, "/:\x00") {
			return ParsedThreadID{}, bad
		}
		return ParsedThreadID{Kind: KindSubAgent, AgentType: typ, AgentID: agentID}, nil
	}
	session, conversation, ok := strings.Cut(id, "/")
	if !ok || !namePattern.MatchString(session) || !namePattern.MatchString(conversation) {
		return ParsedThreadID{}, bad
	}
	return ParsedThreadID{Kind: KindMain, SessionID: session, ConversationID: conversation}, nil
}

// TurnID is fixed when a message enters the inbox.
func TurnID(threadID, messageID string, retry int) string {
	return "t" + digest(16, threadID, messageID, strconv.Itoa(retry))
}

// MessageID is the id of the message a turn writes at a step. Step 0 is the
// user's message, step n the n-th reply.
func MessageID(turnID string, step int) string { return turnID + "." + strconv.Itoa(step) }

// ToolMessageID is the id of the result of a call.
func ToolMessageID(callID string) string { return callID + "r" }

// CallID is our id for the index-th call of a step. Providers repeat theirs.
func CallID(turnID string, step, index int) string {
	return fmt.Sprintf("call_%s_%d_%d", strings.TrimPrefix(turnID, "t"), step, index)
}

// TaskID is the id of the task a call stands for.
func TaskID(callID string) string { return "task_" + strings.TrimPrefix(callID, "call_") }

// CallOfTask is the id of the call that a task belongs to.
func CallOfTask(taskID string) string { return "call_" + strings.TrimPrefix(taskID, "task_") }

// TaskQueue is the Temporal task queue of a store's workers.
func TaskQueue(storeID string) string { return "spool-" + storeID }

// digest is the first n hex digits of a SHA-256 over parts, each ended by NUL.
func digest(n int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))[:n]
}

// MessageRange names messages of a thread by their first and last seq.
func MessageRange(threadID string, from, to int64) string {
	return fmt.Sprintf("%s#%d-%d", threadID, from, to)
}
