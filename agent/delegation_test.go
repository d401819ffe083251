package agent

import (
	"strings"
	"testing"
	"time"
)

// Row 15: every end of a sub-agent says who, where, how long, what it cost.
func TestRow15_DelegationResultSaysEverything(t *testing.T) {
	base := SpecialistAgentResult{
		AgentType: "researcher", AgentID: "researcher-1-abc", ThreadID: "agent:researcher:researcher-1-abc",
		Duration: 1500 * time.Millisecond, Usage: Usage{ToolCalls: 3, TotalTokens: 420, Price: 0.0123},
	}
	always := []string{"researcher-1-abc", "agent:researcher:researcher-1-abc", "1.5s", "tool calls: 3", "tokens: 420", "$0.0123"}
	for _, c := range []struct {
		name   string
		end    func(*SpecialistAgentResult)
		reason ErrorReason
		says   []string
	}{
		{"success", func(o *SpecialistAgentResult) { o.Status, o.Answer = ThreadCompleted, "42" }, "", []string{"success", "42"}},
		{"empty answer", func(o *SpecialistAgentResult) { o.Status = ThreadCompleted }, "", []string{"success", "without a text"}},
		{"failure", func(o *SpecialistAgentResult) { o.Status, o.Reason, o.Error = ThreadFailed, ReasonError, "boom" }, ErrUnknown, []string{"failed", "boom", "resume"}},
		{"limit", func(o *SpecialistAgentResult) { o.Status, o.Reason = ThreadFailed, ReasonLimit }, ErrUnknown, []string{"failed (limit)"}},
		{"timeout", func(o *SpecialistAgentResult) { o.Status, o.Reason, o.Answer = ThreadFailed, ReasonTimeout, "so far" }, ErrTimeout, []string{"timeout", "so far", "incomplete"}},
		{"terminated", func(o *SpecialistAgentResult) { o.Status, o.Reason = ThreadFailed, ReasonTerminated }, ErrAborted, []string{"terminated"}},
		{"cancelled", func(o *SpecialistAgentResult) { o.Status = ThreadCancelled }, ErrAborted, []string{"cancelled"}},
		{"in the background", func(o *SpecialistAgentResult) { o.Status, o.Background = ThreadCompleted, true }, "", []string{"Background agent researcher ended: success"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := base
			c.end(&o)
			text := DelegationResultFormatter{}.Result(o)
			for _, part := range append(c.says, always...) {
				if !strings.Contains(text, part) {
					t.Errorf("%q does not say %q", text, part)
				}
			}
			if got := o.ErrorReason(); got != c.reason {
				t.Errorf("error reason %q, want %q", got, c.reason)
			}
		})
	}
}

func TestDelegationRefusalsNameTheirLimit(t *testing.T) {
	for text, part := range map[string]string{
		RefuseDepth(4, 3):                                    "depth limit is 3",
		RefuseFanOut(8, 8):                                   "limit is 8",
		RefuseDescendants(50, 50):                            "limit is 50",
		RefuseDisabled():                                     "disabled",
		RefuseResumeUnknown("x"):                             `"x"`,
		RefuseResumeForeign("x"):                             "not a sub-agent of this thread",
		RefuseResumeType("x", "coder", "general"):            "coder",
		RefuseTool("shell"):                                  "shell",
		DelegationResultFormatter{}.Started("a", "a-1", "t"): "a-1",
		TextLost(5):                                          "5 times",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}
