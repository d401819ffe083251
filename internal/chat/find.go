// Package chat sends messages and waits for turns: it shows what happens, asks the
// person at the terminal what has to be asked, and reports how a turn ended.
package chat

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// Latest stands for the conversation with the newest activity.
const Latest = "latest"

// lister is what ids are looked up in.
type lister interface {
	ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) ([]agent.Thread, string, error)
}

// CheckID refuses what could be neither a thread id nor that of a session, nor the
// beginning of one.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("give a thread id, SESSION/CONVERSATION or agent:TYPE:ID, as threads lists them, or a session's, or the beginning of one, or %s", Latest)
	case isSession(id):
		return agent.CheckName("session", id)
	}
	_, err := agent.ParseThreadID(id)
	return err
}

func isSession(id string) bool { return id != "" && !strings.ContainsAny(id, "/:") }

// Find is the thread that an id names as a person types it: see FullID. That of a
// session stands for its default conversation, or for the only one that it has.
func Find(ctx context.Context, c lister, id string) (string, error) {
	id, err := FullID(ctx, c, id)
	if err != nil || !isSession(id) {
		return id, err
	}
	list, _, err := c.ThreadPage(ctx, memory.ThreadFilter{SessionID: id}, "", 100)
	if err != nil {
		return "", err
	}
	byDefault := agent.MainThreadID(id, agent.DefaultConversation)
	var names []string
	for _, t := range list {
		if t.ID == byDefault {
			return byDefault, nil
		}
		names = append(names, t.ID)
	}
	switch len(names) {
	case 0:
		return "", agent.Errorf(agent.CodeNotFound, "there is no session %s here: threads lists what there is", id)
	case 1:
		return names[0], nil
	}
	return "", agent.Errorf(agent.CodeInvalid, "session %s has several conversations: name one of %s", id, strings.Join(names, ", "))
}

// FullID completes an id of a session, or of a sub-agent's thread, of which a person
// has typed the beginning; Latest is the id of a thread. What nothing begins with is
// returned as it is; what several begin with is CodeInvalid.
func FullID(ctx context.Context, c lister, id string) (string, error) {
	if id == "" || strings.Contains(id, "/") {
		return id, nil
	}
	if id == Latest {
		newest, err := Newest(ctx, c, "")
		return newest.ID, err
	}
	named := func(t agent.Thread) string { return t.ID }
	if isSession(id) {
		named = func(t agent.Thread) string { return t.SessionID }
		if own, _, err := c.ThreadPage(ctx, memory.ThreadFilter{SessionID: id}, "", 1); err != nil || len(own) > 0 {
			return id, err
		}
	}
	list, _, err := c.ThreadPage(ctx, memory.ThreadFilter{All: !isSession(id), Prefix: id}, "", 100)
	if err != nil {
		return "", err
	}
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = named(t)
	}
	return Begun(id, names)
}

// Begun is the one of some ids that is id or begins with it. What none begins with is
// returned as it is; what several begin with is CodeInvalid.
func Begun(id string, ids []string) (string, error) {
	full := id
	if id == "" || slices.Contains(ids, id) {
		return id, nil
	}
	for _, found := range ids {
		switch {
		case !strings.HasPrefix(found, id) || found == full:
		case full != id:
			return "", agent.Errorf(agent.CodeInvalid, "several ids begin with %s, such as %s and %s: give more of it", id, full, found)
		default:
			full = found
		}
	}
	return full, nil
}

// Newest is the conversation with the newest activity, of those begun in dir if that is
// given; never a sub-agent.
func Newest(ctx context.Context, c lister, dir string) (agent.Thread, error) {
	found, _, err := c.ThreadPage(ctx, memory.ThreadFilter{Workdir: dir}, "", 1)
	if err != nil {
		return agent.Thread{}, err
	}
	if len(found) == 0 {
		where := ""
		if dir != "" {
			where = " in " + dir
		}
		return agent.Thread{}, agent.Errorf(agent.CodeNotFound, "there is no conversation%s", where)
	}
	return found[0], nil
}

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

// Allowed lists what was allowed for the session of a thread, or takes one of it back: arg
// is "" or "revoke N".
func Allowed(ctx context.Context, c Conversations, threadID, arg string) (string, error) {
	id, err := agent.ParseThreadID(threadID)
	if err != nil || id.SessionID == "" {
		return "  a sub-agent has no session of its own: go to its conversation", nil //nolint:nilerr // it is said
	}
	list, err := c.Permissions(ctx, id.SessionID)
	if err != nil {
		return "", err
	}
	if word, number, _ := strings.Cut(arg, " "); word == "revoke" {
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 || n > len(list) {
			return "  /allowed revoke N: N is a number of /allowed", nil //nolint:nilerr // it is said
		}
		return "  asks again: " + terminal.Visible(list[n-1].Rule), c.Revoke(ctx, id.SessionID, list[n-1])
	}
	if len(list) == 0 {
		return "  nothing is allowed for this session beyond what the agents' rules say", nil
	}
	var b strings.Builder
	for i, p := range list {
		fmt.Fprintf(&b, "%3d  %s  for %s (%s)\n", i+1, terminal.Visible(p.Rule), terminal.Visible(p.Agent), terminal.Visible(p.Source))
	}
	return b.String() + "  /allowed revoke N takes one back", nil
}
