// Package chat sends messages and waits for turns: it shows what happens, asks the
// person at the terminal what has to be asked, and reports how a turn ended.
package chat

import (
	"context"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Conversations is what commands do with threads: spool.Client does it on a store,
// remote.Client behind a web server.
type Conversations interface {
	KeepImage(ctx context.Context, data []byte) (string, error)
	Send(ctx context.Context, r memory.SendRequest) (spool.Reply, error)
	Retry(ctx context.Context, threadID, requestID string) (spool.Reply, error)
	Fork(ctx context.Context, r spool.ForkRequest) (spool.Forked, error)
	Cancel(ctx context.Context, r memory.CancelRequest) (spool.Cancelled, error)
	Status(ctx context.Context, threadID, turnID string) (spool.Reply, error)
	Served(ctx context.Context, r spool.Reply) spool.Reply
	Wait(ctx context.Context, threadID, turnID string, o spool.WaitOptions) (spool.Reply, error)
	Follow(ctx context.Context, threadID, cursor string, o spool.FollowOptions, f func(spool.Update) error) error
	TailTree(ctx context.Context, threadID string) (map[string]string, error)

	Approvals(ctx context.Context, threadID string) ([]spool.ApprovalRequest, error)
	Decisions(ctx context.Context) ([]memory.Approval, error)
	Decide(ctx context.Context, d memory.Decision) (spool.Decided, error)
	Permissions(ctx context.Context, sessionID string) ([]memory.Permission, error)
	Revoke(ctx context.Context, sessionID string, p memory.Permission) error
	Questions(ctx context.Context, threadID string) ([]spool.QuestionRequest, error)
	Answer(ctx context.Context, r memory.AnswerRequest) (spool.Answered, error)
	ModelWaits(ctx context.Context, threadID string) ([]agent.ModelWait, error)

	ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) ([]agent.Thread, string, error)
	Show(ctx context.Context, threadID string, events bool) (spool.View, error)
	Tasks(ctx context.Context, threadID string) ([]agent.Task, error)
	Trace(ctx context.Context, threadID string) (*spool.Node, error)
	// Connected reports whether what is sent is run at once.
	Connected() bool
}

// ThreadOf is the thread that a message is for.
func ThreadOf(r memory.SendRequest) string {
	if r.ThreadID != "" {
		return r.ThreadID
	}
	conversation := r.ConversationID
	if conversation == "" {
		conversation = agent.DefaultConversation
	}
	return agent.MainThreadID(r.SessionID, conversation)
}
