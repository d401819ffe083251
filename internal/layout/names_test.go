package layout

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/spool-agents/spool/internal/contract"
)

// pinned are the names that stand in histories, stores, exports and scripts. A
// rename is a migration: old histories and old rows keep the old name.
var pinned = map[string]string{
	"contract.ForPeople": "people", "contract.ForSubAgents": "sub-agents", "contract.ParkedRun": "parked",
	"contract.ConversationTurn": "ConversationTurn",
	"contract.SubAgentTurn":     "SubAgentTurn",
	"contract.SignalNudge":      "nudge",
	"contract.SignalCancel":     "cancel", "contract.SignalWait": "wait", "contract.WaitsFor": "WaitsFor", "contract.WaitsForPerson": "person",
	"contract.WaitsForProvider": "provider", "contract.WaitsForChildren": "children",
	"contract.CallModel":        "CallModel",
	"contract.RunTool":          "RunTool",
	"contract.Nudge":            "Nudge",
	"contract.SaveUserMessage":  "SaveUserMessage",
	"contract.SaveToolRound":    "SaveToolRound",
	"contract.SaveFinalAnswer":  "SaveFinalAnswer",
	"contract.SaveDenial":       "SaveDenial",
	"contract.SummarizeContext": "SummarizeContext",
	"contract.OpenApproval":     "OpenApproval",
	"contract.StepState":        "StepState",
	"contract.OpenQuestion":     "OpenQuestion",
	"contract.QuestionState":    "QuestionState",
	"contract.TurnWaited":       "TurnWaited",
	"contract.OpenDelegation":   "OpenDelegation",
	"contract.TakeChildResult":  "TakeChildResult",
	"contract.CloseTurn":        "CloseTurn",
	"contract.ErrTypeStale":     "Stale",
	"contract.ErrTypeCancelled": "CancelRequested",
	"contract.ErrTypeForeign":   "ForeignStore",
	"contract.ErrTypeLimit":     "Limit",
	"contract.ErrTypeModel":     "Model",
	"contract.ErrTypeStore":     "Unavailable",
	"contract.ErrTypeInvalid":   "Invalid",
	"contract.ErrTypeStopping":  "WorkerStopping",
	"contract.ErrTypeDisplaced": "AttemptStale",
	"contract.ErrTypeWaiting":   "Waiting",
	"contract.ErrTypeContext":   "ContextFull",
	"contract.ErrTypeFallback":  "ModelFallback",

	"agent.OnDenyEnd": "end", "agent.OnDenyContinue": "continue",
	"agent.CodeInvalid":              "invalid",
	"agent.CodeNotFound":             "not_found",
	"agent.CodeConflict":             "conflict",
	"agent.CodeLimit":                "limit",
	"agent.CodeUnavailable":          "unavailable",
	"agent.CodeUnknownAgent":         "unknown_agent",
	"agent.CodeStale":                "stale",
	"agent.CodeForeign":              "foreign",
	"agent.CodeInternal":             "internal",
	"agent.DefaultConversation":      "default",
	"agent.ImageScheme":              "image:",
	"agent.FileScheme":               "file:",
	"agent.SourceTool":               "tool",
	"agent.RoleSystem":               "system",
	"agent.RoleUser":                 "user",
	"agent.RoleAssistant":            "assistant",
	"agent.RoleTool":                 "tool",
	"agent.ModelRateLimited":         "rate_limited",
	"agent.ModelUnknown":             "model_not_found",
	"agent.ModelAnswerInvalid":       "answer_invalid",
	"agent.ClassEmpty":               "empty",
	"agent.ClassUnreadable":          "unreadable",
	"agent.ClassUnclear":             "unclear",
	"agent.ClassInsecure":            "insecure",
	"agent.ModelOverloaded":          "overloaded",
	"agent.ModelBrokenStream":        "broken_stream",
	"agent.ModelIdleTimeout":         "idle_timeout",
	"agent.ModelUnreachable":         "unreachable",
	"agent.ModelAuth":                "auth",
	"agent.ModelBadRequest":          "bad_request",
	"agent.ModelContextTooLong":      "context_too_long",
	"agent.ModelCutOff":              "cut_off",
	"agent.ModelContentFilter":       "content_filter",
	"agent.ModelBadResponse":         "bad_response",
	"agent.ToolAssignTask":           "assign_task",
	"agent.ToolOutput":               "tool_output",
	"agent.ToolTaskOutput":           "task_output",
	"agent.ToolAskUser":              "ask_user",
	"agent.ThreadPending":            "pending",
	"agent.ThreadRunning":            "running",
	"agent.ThreadWaitingForUser":     "waiting_for_user",
	"agent.ThreadWaitingForApproval": "waiting_for_approval",
	"agent.ThreadCompleted":          "completed",
	"agent.ThreadFailed":             "failed",
	"agent.ThreadCancelled":          "cancelled",
	"agent.ReasonError":              "error",
	"agent.ReasonTimeout":            "timeout",
	"agent.ReasonLimit":              "limit",
	"agent.ReasonTerminated":         "terminated",
	"agent.ReasonCancelled":          "cancelled",
	"agent.ReasonDenied":             "denied",
	"agent.TaskPending":              "pending",
	"agent.TaskRunning":              "running",
	"agent.TaskWaiting":              "waiting",
	"agent.TaskSuccess":              "success",
	"agent.TaskFailed":               "failed",
	"agent.TaskCancelled":            "cancelled",
	"agent.CallPending":              "pending",
	"agent.CallRunning":              "running",
	"agent.CallAwaitingApproval":     "awaiting_approval",
	"agent.CallSuccess":              "success",
	"agent.CallFailed":               "failed",
	"agent.CallUnknown":              "unknown",
	"agent.CallAborted":              "aborted",
	"agent.CallDenied":               "denied",
	"agent.ErrAborted":               "aborted",
	"agent.ErrDenied":                "denied",
	"agent.ErrEdited":                "edited",
	"agent.ErrTimeout":               "timeout",
	"agent.ErrNotFound":              "not_found",
	"agent.ErrPermissionDenied":      "permission_denied",
	"agent.ErrInvalidInput":          "invalid_input",
	"agent.ErrNetwork":               "network_error",
	"agent.ErrRateLimit":             "rate_limit",
	"agent.ErrToolNotFound":          "tool_not_found",
	"agent.ErrValidationFailed":      "validation_failed",
	"agent.ErrUnknown":               "unknown",
	"agent.TextAborted":              "Tool execution aborted by user",
	"agent.TextStopped":              "Tool execution aborted",
	"agent.TextNoResult":             "Tool execution aborted: its result was not saved",
	"agent.TextDenied":               "Tool execution denied by user",
	"agent.KindMain":                 "main",
	"agent.KindSubAgent":             "subagent",
	"agent.GateAuto":                 "auto",
	"agent.GateAsk":                  "ask",
	"agent.GateAskEach":              "ask each time",
	"agent.GateDeny":                 "deny",
	"agent.EventMessageStarted":      "message_started",
	"agent.EventAssistantChunk":      "assistant_chunk",
	"agent.EventReasoningChunk":      "reasoning_chunk",
	"agent.EventToolCalls":           "tool_calls",
	"agent.EventToolCall":            "tool_call",
	"agent.EventApprovalRequired":    "tool_approval_required",
	"agent.EventApprovalResponse":    "tool_approval_response",
	"agent.EventToolResponse":        "tool_response",
	"agent.EventAssistantMessage":    "assistant_message",
	"agent.EventMemoryAppended":      "memory_appended",
	"agent.EventMemoryEdited":        "memory_edited",
	"agent.EventStreamFinish":        "stream_finish",
	"agent.EventQuestionAsked":       "question_asked",
	"agent.EventQuestionAnswered":    "question_answered",
	"agent.EventSubAgentStarted":     "sub_agent_started",
	"agent.EventSubAgentToolCall":    "sub_agent_tool_call",
	"agent.EventSubAgentToolResult":  "sub_agent_tool_result",
	"agent.EventSubAgentCompleted":   "sub_agent_completed",
	"agent.EventSubAgentMetrics":     "sub_agent_metrics",
	"agent.EventContextSummary":      "context_summary",
	"agent.EventMCPStderr":           "mcp_stderr",
	"agent.EventToolProgress":        "tool_progress",
	"agent.EventWarning":             "warning",
	"agent.WarnTruncated":            "context_truncated",
	"agent.WarnShortened":            "message_shortened",
	"agent.WarnWindow":               "window_too_small",
	"agent.WarnFallback":             "model_fallback",
	"agent.WarnModelWait":            "model_wait",
	"agent.WarnNoImages":             "images_left_out",
	"agent.WarnAnswerCut":            "answer_cut",
	"agent.WarnCallAsText":           "tool_call_as_text",
	"agent.FinishLength":             "length",
	"agent.SummaryHead":              "[Summary of the conversation so far; the messages themselves are not shown any more]",
	"agent.RepairHead":               "Your answer to this is not valid: ",
	"agent.SummaryPrefix":            "Summarise this conversation:",
	"agent.EventDone":                "done",
	"agent.EventError":               "error",

	"memory.CrashAtEnv":     "SPOOL_CRASH_AT",
	"memory.CrashOnceEnv":   "SPOOL_CRASH_ONCE",
	"memory.DefaultProfile": "default",
	"memory.Queue":          "queue",
	"memory.Steer":          "steer",
	"memory.Reject":         "reject",
	"memory.TurnOpen":       "open",
	"memory.TurnClosed":     "closed",
	"memory.EntryMessage":   "message",
	"memory.EntryRetry":     "retry",
	"memory.EntryAssign":    "assign",
	"memory.EntryChild":     "child",
	"memory.EntryWaiting":   "waiting",
	"memory.EntryTaken":     "taken",
	"memory.EntryDropped":   "dropped",
	"memory.FoundDamaged":   "damaged",
	"memory.FoundLost":      "lost",
	"memory.FoundWrong":     "wrong",
	"memory.CauseFull":      "full",
	"memory.CauseRefused":   "refused",
	"memory.Approve":        "approve",
	"memory.ApproveAll":     "approve_all",
	"memory.Deny":           "deny",
	"memory.Edit":           "edit",

	"memory.QuestionOpen":     "open",
	"memory.QuestionAnswered": "answered",
	"memory.QuestionAborted":  "aborted",
	"contract.NewerBuild":     "this run carries state of a newer build",
}

// unpinned are string constants that are prose or go nowhere.
var unpinned = []string{"agent.TextUnknown"}

func TestNamesArePinned(t *testing.T) {
	found := map[string]string{}
	for _, dir := range []string{"internal/contract", "agent", "memory"} {
		for _, s := range sources(t, dir) {
			if s.test || s.dir != dir {
				continue
			}
			for name, value := range stringConstants(s.file) {
				found[s.file.Name.Name+"."+name] = value
			}
		}
	}
	for name, value := range found {
		want, ok := pinned[name]
		switch {
		case !ok && !slices.Contains(unpinned, name):
			t.Errorf("%s = %q is a new name: pin it here", name, value)
		case ok && value != want:
			t.Errorf("%s is %q, but %q stands in histories and stores: a rename needs a migration", name, value, want)
		}
	}
	for name, value := range pinned {
		if _, ok := found[name]; !ok {
			t.Errorf("%s = %q is gone: old histories and stores still have it", name, value)
		}
	}
}

// stringConstants returns the constants of a file that are string literals.
func stringConstants(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec) // a const declaration holds nothing else
			for i, name := range v.Names {
				if i >= len(v.Values) || !name.IsExported() {
					continue
				}
				if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					out[name.Name], _ = strconv.Unquote(lit.Value)
				}
			}
		}
	}
	return out
}

// The search attributes are set by workflow code: their order is part of the history.
func TestSearchAttributesArePinned(t *testing.T) {
	want := []string{"SessionId", "ConversationId", "ThreadKind", "AgentType", "ParentThreadId", "RootThreadId", "TurnId", "UserId", "WaitsFor"}
	if !slices.Equal(contract.SearchAttributes, want) {
		t.Errorf("search attributes %v, want %v", contract.SearchAttributes, want)
	}
}

// A build refuses state of a newer version; raise it only with a reader for the old one.
func TestStateVersionIsPinned(t *testing.T) {
	if contract.StateVersion != 1 {
		t.Errorf("contract.StateVersion is %d: histories of version 1 must still be read; then change this test", contract.StateVersion)
	}
}
