package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// typed runs a command of the starter with --json, checks its exit code and
// returns its document.
func typed[T any](t *testing.T, s *tt.Stack, code int, args ...string) T {
	t.Helper()
	out, _, got := starterApart(t, s, append(args, "--json")...)
	require.Equal(t, code, got, out)
	var doc T
	require.NoError(t, json.Unmarshal([]byte(out), &doc), out)
	return doc
}

type pendingCall struct {
	ID       string `json:"id"`
	ToolName string `json:"toolName"`
}

type pendingDoc struct {
	ApprovalID string        `json:"approvalId"`
	ThreadID   string        `json:"threadId"`
	Agent      string        `json:"agent"`
	ToolCalls  []pendingCall `json:"toolCalls"`
}

type sentDoc struct {
	ThreadID string       `json:"threadId"`
	TurnID   string       `json:"turnId"`
	Status   string       `json:"status"`
	Response string       `json:"response"`
	Pending  []pendingDoc `json:"pending"`
}

type approvalsDoc struct {
	Approvals []pendingDoc `json:"approvals"`
}

// sendAsking types a message whose turn will wait for a person.
func sendAsking(t *testing.T, s *tt.Stack, session, text string) (sentDoc, pendingDoc) {
	t.Helper()
	r := typed[sentDoc](t, s, 6, "send", "-s", s.Session(session), "--message-id", "m", text)
	require.Equal(t, "waiting_for_approval", r.Status)
	require.Len(t, r.Pending, 1)
	listed := typed[approvalsDoc](t, s, 0, "approvals", r.ThreadID)
	require.Equal(t, r.Pending, listed.Approvals)
	return r, r.Pending[0]
}

// answered types the message again, with its id, and waits for the turn's end.
func answered(t *testing.T, s *tt.Stack, session, text string) sentDoc {
	t.Helper()
	return typed[sentDoc](t, s, 0, "send", "--wait", "-s", s.Session(session), "--message-id", "m", text)
}

// Rows 74–77, 64: what a person types to decide, and what becomes of the calls.
func TestRow74_ApprovalsOnTheCommandLine(t *testing.T) {
	s := stack(t)
	template(t, s, "orchestrator", "approval:\n  shell: ask\n  shell(true *): auto\n  shell(echo no*): deny\n", "You ask first.")
	template(t, s, "lax", "description: asks nobody\napproval:\n  shell: auto\n", "You ask nobody.")
	template(t, s, "goeson", "description: goes on\nonDeny: continue\n", "You go on.")
	s.StartWorker()

	t.Run("approve", func(t *testing.T) {
		text := script.Script(script.Calls(add(6, 7), count("sibling-free"), script.Call("shell", map[string]any{"command": "true sibling"})), "say granted")
		r, p := sendAsking(t, s, "approve", text)
		require.Equal(t, []pendingCall{{agent.CallID(r.TurnID, 1, 1), "shell"}}, p.ToolCalls, "what needs no approval ran at once")
		out := says(t, s, 4, "send", "-s", s.Session("approve"), "just a word")
		require.Contains(t, out, p.ApprovalID)
		out = says(t, s, 3, "approve", "no-such-approval")
		require.Contains(t, out, "no-such-approval")
		says(t, s, 0, "approve", p.ApprovalID)
		require.Equal(t, "granted", answered(t, s, "approve", text).Response)
		says(t, s, 0, "approve", p.ApprovalID)
		out = says(t, s, 4, "deny", p.ApprovalID)
		require.Contains(t, out, "approve by tester")
		require.Equal(t, 1, lines(s.File("sibling-free")))
		require.Empty(t, typed[approvalsDoc](t, s, 0, "approvals").Approvals)
	})
	t.Run("deny, and the agent goes on", func(t *testing.T) {
		text := script.Script(count("g"), "echo so be it:")
		out, _, code := starterApart(t, s, "send", "-s", s.Session("goeson"), "--message-id", "m", "--agent", "goeson", text)
		require.Equal(t, 6, code, out)
		p := typed[approvalsDoc](t, s, 0, "approvals", s.Thread("goeson")).Approvals[0]
		says(t, s, 0, "deny", p.ApprovalID)
		out, _, code = starterApart(t, s, "send", "--wait", "-s", s.Session("goeson"), "--message-id", "m", "--agent", "goeson", text)
		require.Equal(t, 0, code, out)
		require.Contains(t, out, "so be it:")
		require.Contains(t, out, agent.TextDenied)
		require.Empty(t, s.File("g"))
	})
	t.Run("edit", func(t *testing.T) {
		text := script.Script(count("e"), "echo told:")
		r, p := sendAsking(t, s, "edit", text)
		says(t, s, 0, "edit", p.ToolCalls[0].ID, "use the staging server")
		require.Contains(t, answered(t, s, "edit", text).Response, "use the staging server")
		m := messages(t, s, r.ThreadID)
		require.Equal(t, "user assistant tool assistant", roles(m))
		require.Equal(t, agent.ErrEdited, m[2].ErrorReason)
		require.Empty(t, s.File("e"))
	})
	t.Run("row 75, partly", func(t *testing.T) {
		text := script.Script(script.Calls(count("p1"), count("p2"), count("p3")), "say some of it")
		r, p := sendAsking(t, s, "partly", text)
		says(t, s, 0, "approve", p.ToolCalls[0].ID, p.ToolCalls[2].ID)
		require.Equal(t, "some of it", answered(t, s, "partly", text).Response)
		m := messages(t, s, r.ThreadID)
		require.Equal(t, []agent.ErrorReason{"", agent.ErrDenied, ""}, []agent.ErrorReason{m[2].ErrorReason, m[3].ErrorReason, m[4].ErrorReason})
		require.Equal(t, agent.TextDenied, m[3].Content.String())
		require.Equal(t, []int{1, 0, 1}, []int{lines(s.File("p1")), lines(s.File("p2")), lines(s.File("p3"))})
	})
	t.Run("a policy denies by pattern, nobody is asked", func(t *testing.T) {
		text := script.Script(script.Call("shell", map[string]any{"command": "echo no >> refused"}), "say went on")
		r := typed[sentDoc](t, s, 0, "send", "-s", s.Session("pattern"), text)
		require.Equal(t, "went on", r.Response)
		require.Equal(t, agent.ErrPermissionDenied, messages(t, s, r.ThreadID)[2].ErrorReason)
		require.Empty(t, s.File("refused"))
	})
	t.Run("row 76, a cancel settles it", func(t *testing.T) {
		text := script.Script(script.Calls(add(1, 2), count("c")), "say never")
		r, p := sendAsking(t, s, "cancel", text)
		says(t, s, 0, "cancel", r.ThreadID)
		out := says(t, s, 4, "approve", p.ApprovalID)
		require.Contains(t, out, "nothing waits for it")
		m := messages(t, s, r.ThreadID)
		require.Contains(t, m[2].Content.String(), "3", "a finished result stays")
		require.Equal(t, agent.ErrAborted, m[3].ErrorReason)
		require.Empty(t, typed[approvalsDoc](t, s, 0, "approvals", r.ThreadID).Approvals)
		require.Empty(t, s.File("c"))
	})
	t.Run("row 77, a child is not laxer than its parent", func(t *testing.T) {
		text := script.Script(script.Task("lax", script.Script(count("lax"), "say child end")), "echo root:")
		r, p := sendAsking(t, s, "child", text)
		require.Equal(t, "lax", p.Agent)
		require.NotEqual(t, r.ThreadID, p.ThreadID)
		out, code := starter(t, s, "threads", "-s", s.Session("child"))
		require.Equal(t, 0, code)
		require.Contains(t, out, "lax waits for approval", "the root shows who waits")
		says(t, s, 0, "approve", p.ApprovalID)
		require.Contains(t, answered(t, s, "child", text).Response, "child end")
		require.Equal(t, 1, lines(s.File("lax")))
	})
}

// Row 74: approve-all lets the named tools run unasked for the rest of the
// session, also in its other conversations, for its sub-agents and after a
// restart; in no other session, and no other tool.
func TestRow74_ApproveAllLastsForTheSession(t *testing.T) {
	s := stack(t)
	template(t, s, "orchestrator", "", "You ask first.")
	w := s.StartWorker()
	r, p := sendAsking(t, s, "s1", script.Script(count("first"), count("second"), "say unasked"))
	says(t, s, 0, "approve", "--all-session", p.ApprovalID)
	require.Equal(t, "unasked", answered(t, s, "s1", script.Script(count("first"), count("second"), "say unasked")).Response)
	require.Equal(t, 1, lines(s.File("second")))
	w.Kill()
	s.StartWorker()
	again := typed[sentDoc](t, s, 0, "send", "-s", s.Session("s1"), "-c", "other", script.Script(script.Task("general", script.Script(count("below"), "say x")), "say still unasked"))
	require.Equal(t, "still unasked", again.Response)
	require.Equal(t, 1, lines(s.File("below")))
	_, p = sendAsking(t, s, "s2", script.Script(count("elsewhere"), "say no"))
	decide(t, s, p.ApprovalID, memory.Deny)
	other := typed[sentDoc](t, s, 6, "send", "-s", s.Session("s1"), script.Script(gatedWrite("w"), "say no"))
	require.Equal(t, r.ThreadID, other.ThreadID)
	require.Equal(t, "file_write", other.Pending[0].ToolCalls[0].ToolName)
	decide(t, s, other.Pending[0].ApprovalID, memory.Deny)
	quiet(t, s, r.ThreadID)
}
