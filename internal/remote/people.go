package remote

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func ofThread(threadID string) url.Values {
	if threadID == "" {
		return nil
	}
	return url.Values{"thread": {threadID}}
}

// Approvals is that of spool.Client.
func (c *Client) Approvals(ctx context.Context, threadID string) ([]spool.ApprovalRequest, error) {
	var out struct {
		Approvals []spool.ApprovalRequest `json:"approvals"`
	}
	err := c.get(ctx, "/api/v1/approvals", ofThread(threadID), &out)
	return out.Approvals, err
}

// Decisions is that of spool.Client.
func (c *Client) Decisions(ctx context.Context) ([]memory.Approval, error) {
	var out struct {
		Decisions []memory.Approval `json:"decisions"`
	}
	err := c.get(ctx, "/api/v1/decisions", nil, &out)
	return out.Decisions, err
}

// Decide is that of spool.Client.
func (c *Client) Decide(ctx context.Context, d memory.Decision) (spool.Decided, error) {
	body := map[string]any{"verdict": d.Verdict}
	if len(d.Calls) > 0 {
		body["calls"] = d.Calls
	}
	if d.Instruction != "" {
		body["instruction"] = d.Instruction
	}
	var out spool.Decided
	err := c.repeat(ctx, http.MethodPost, "/api/v1/approvals/"+url.PathEscape(d.Target)+"/decision", body, &out)
	return out, err
}

// Questions is that of spool.Client.
func (c *Client) Questions(ctx context.Context, threadID string) ([]spool.QuestionRequest, error) {
	var out struct {
		Questions []spool.QuestionRequest `json:"questions"`
	}
	err := c.get(ctx, "/api/v1/questions", ofThread(threadID), &out)
	return out.Questions, err
}

// ModelWaits is that of spool.Client.
func (c *Client) ModelWaits(ctx context.Context, threadID string) ([]agent.ModelWait, error) {
	var out struct {
		Waits []agent.ModelWait `json:"waits"`
	}
	err := c.get(ctx, "/api/v1/waits", ofThread(threadID), &out)
	return out.Waits, err
}

// Answer is that of spool.Client.
func (c *Client) Answer(ctx context.Context, r memory.AnswerRequest) (spool.Answered, error) {
	var out spool.Answered
	err := c.repeat(ctx, http.MethodPost, "/api/v1/questions/"+url.PathEscape(r.Target)+"/answer", map[string]string{"text": r.Text}, &out)
	return out, err
}
