package remote

import (
	"context"
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
	return list[spool.ApprovalRequest](ctx, c, "/api/v1/approvals", ofThread(threadID))
}

// Decisions is that of spool.Client.
func (c *Client) Decisions(ctx context.Context) ([]memory.Approval, error) {
	return list[memory.Approval](ctx, c, "/api/v1/decisions", nil)
}

// Decide is that of spool.Client.
func (c *Client) Decide(ctx context.Context, d memory.Decision) (spool.Decided, error) {
	return post[spool.Decided](ctx, c, "/api/v1/approvals/"+url.PathEscape(d.Target)+"/decision", d)
}

// Permissions are not told over HTTP.
func (c *Client) Permissions(context.Context, string) ([]memory.Permission, error) {
	return nil, agent.Errorf(agent.CodeInvalid, "what is allowed for a session is listed where the store is: leave out --server there")
}

// Revoke is not possible over HTTP.
func (c *Client) Revoke(ctx context.Context, session string, _ memory.Permission) error {
	_, err := c.Permissions(ctx, session)
	return err
}

// Questions is that of spool.Client.
func (c *Client) Questions(ctx context.Context, threadID string) ([]spool.QuestionRequest, error) {
	return list[spool.QuestionRequest](ctx, c, "/api/v1/questions", ofThread(threadID))
}

// ModelWaits is that of spool.Client.
func (c *Client) ModelWaits(ctx context.Context, threadID string) ([]agent.ModelWait, error) {
	return list[agent.ModelWait](ctx, c, "/api/v1/waits", ofThread(threadID))
}

// Answer is that of spool.Client.
func (c *Client) Answer(ctx context.Context, r memory.AnswerRequest) (spool.Answered, error) {
	return post[spool.Answered](ctx, c, "/api/v1/questions/"+url.PathEscape(r.Target)+"/answer", r)
}
