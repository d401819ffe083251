package starter

import (
	"context"
	"fmt"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// checkThread refuses what could be neither a thread id nor that of a session. Every
// command that takes a thread takes both, and finds the thread with thread.
func checkThread(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("give a thread id, SESSION/CONVERSATION or agent:TYPE:ID, as threads lists them, or a session's")
	case isSession(id):
		return agent.CheckName("session", id)
	}
	_, err := agent.ParseThreadID(id)
	return err
}

func isSession(id string) bool { return id != "" && !strings.ContainsAny(id, "/:") }

// threadLister is what lists threads.
type threadLister interface {
	ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) ([]agent.Thread, string, error)
}

// thread is the thread that an id names. That of a session stands for its default
// conversation, or for the only one that it has.
func thread(ctx context.Context, c threadLister, id string) (string, error) {
	if !isSession(id) {
		return id, nil
	}
	const most = 100
	list, _, err := c.ThreadPage(ctx, memory.ThreadFilter{SessionID: id}, "", most)
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
