// Package chat sends messages and waits for turns: it shows what happens, asks the
// person at the terminal what has to be asked, and reports how a turn ended.
package chat

import (
	"context"
	"fmt"
	"maps"
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

type lister interface {
	ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) ([]agent.Thread, string, error)
}

// CheckID refuses what could be neither an id of a thread, session, agent or task, nor the
// beginning of one.
func CheckID(id string) error {
	id = uncut(id)
	switch {
	case id == "":
		return fmt.Errorf("give a thread id, SESSION/CONVERSATION or agent:TYPE:ID, as threads lists them, or a session's, or the beginning of one, or %s", Latest)
	case isSession(id):
		return agent.CheckName("session", id)
	case strings.HasPrefix(id, "agent:"):
		return nil
	}
	_, err := agent.ParseThreadID(id)
	return err
}

func isSession(id string) bool { return id != "" && !strings.ContainsAny(id, "/:") }

// uncut is an id without the mark of a list that has cut it.
func uncut(id string) string { return strings.TrimSuffix(id, "…") }

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
	names := idsOf(list)
	switch {
	case slices.Contains(names, byDefault):
		return byDefault, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", agent.Errorf(agent.CodeInvalid, "session %s has several conversations: name one of %s", id, strings.Join(names, ", "))
}

// FullID completes the id that a person has typed, or its beginning: of a session, of a
// conversation behind a session's, of a sub-agent, whose id may be left out up to its last
// part, or of its task. Latest is the newest conversation. CodeNotFound if there is none,
// CodeInvalid if there are several.
func FullID(ctx context.Context, c lister, id string) (string, error) {
	id = uncut(id)
	if err := CheckID(id); err != nil && id != "" && agent.ThreadOfAgent(id) == "" {
		return "", err
	}
	session, conversation, inSession := strings.Cut(id, "/")
	switch {
	case id == "":
		return "", nil
	case id == Latest:
		newest, err := Newest(ctx, c, "")
		return newest.ID, err
	case inSession:
		session, err := FullID(ctx, c, session)
		if err != nil {
			return "", err
		}
		id = session + "/" + conversation
		found, err := begins(ctx, c, memory.ThreadFilter{}, id)
		if err != nil {
			return "", err
		}
		return Begun("thread", "threads", id, idsOf(found))
	}
	var names []string
	if isSession(id) {
		if own, _, err := c.ThreadPage(ctx, memory.ThreadFilter{SessionID: id}, "", 1); err != nil || len(own) > 0 {
			return id, err
		}
		found, err := begins(ctx, c, memory.ThreadFilter{}, id)
		if err != nil {
			return "", err
		}
		for _, t := range found {
			names = append(names, t.SessionID)
		}
	}
	if !strings.HasPrefix("agent:", id) { // with which all of them begin
		began := id
		if strings.HasPrefix(id, "task_") {
			began = agent.CallOfTask(id)
		}
		found, err := begins(ctx, c, memory.ThreadFilter{All: !isSession(id), SubAgents: isSession(id)}, began)
		if err != nil {
			return "", err
		}
		names = append(names, idsOf(found)...)
	}
	return one("thread, session or task", "threads", id, names)
}

// begins are the threads of a filter that an id may mean.
func begins(ctx context.Context, c lister, f memory.ThreadFilter, id string) ([]agent.Thread, error) {
	f.Prefix = id
	list, _, err := c.ThreadPage(ctx, f, "", 100)
	return list, err
}

func idsOf(list []agent.Thread) (ids []string) {
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	return ids
}

// Begun is the one of some ids that is id or begins with it: what they are, and which
// command lists them, is for the error. CodeNotFound if there is none, CodeInvalid, with
// some of them, if there are several.
func Begun(what, command, id string, ids []string) (string, error) {
	id = uncut(id)
	if slices.Contains(ids, id) {
		return id, nil
	}
	return one(what, command, id, slices.DeleteFunc(slices.Clone(ids), func(found string) bool { return id == "" || !strings.HasPrefix(found, id) }))
}

// one is the only id that was found.
func one(what, command, id string, found []string) (string, error) {
	const most = 5
	slices.Sort(found)
	switch found = slices.Compact(found); {
	case len(found) == 0:
		return "", agent.Errorf(agent.CodeNotFound, "there is no %s %s here: %s lists what there is", what, id, command)
	case len(found) == 1:
		return found[0], nil
	case len(found) > most:
		found = append(found[:most], "…")
	}
	return "", agent.Errorf(agent.CodeInvalid, "several ids begin with %s: %s. Give more of the one you mean", id, strings.Join(found, ", "))
}

// MessageID is the id of the message that a person names: by the number that show prints,
// its id, the id that its sender gave it, or that of the turn which it ends, or the
// beginning of one of the ids.
func MessageID(ctx context.Context, c Conversations, threadID, at string) (string, error) {
	if at == "" {
		return "", nil
	}
	v, err := c.Show(ctx, threadID, false)
	if err != nil {
		return "", err
	}
	means := map[string]string{}
	for _, m := range v.Messages {
		if means[m.TurnID] = m.ID; !strings.HasPrefix(m.ID, m.TurnID) || strings.Contains(at, ".") { // else they begin alike
			means[m.ID] = m.ID
		}
	}
	for _, m := range v.Messages {
		if m.MessageID != "" {
			means[m.MessageID] = m.ID
		}
	}
	if id := means[at]; id != "" {
		return id, nil
	}
	if n, err := strconv.ParseInt(strings.TrimPrefix(at, "#"), 10, 64); err == nil {
		i := slices.IndexFunc(v.Messages, func(m agent.Message) bool { return m.Seq == n })
		if i < 0 {
			return "", agent.Errorf(agent.CodeNotFound, "there is no message %s: show %s numbers them", at, threadID)
		}
		return v.Messages[i].ID, nil
	}
	id, err := Begun("message", "show --json", at, slices.Collect(maps.Keys(means)))
	if agent.CodeOf(err) == agent.CodeNotFound { // it may have become the answer to a question: the store knows
		return at, nil
	}
	return means[id], err
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
