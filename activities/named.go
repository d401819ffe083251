package activities

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// named tells which hosts a thread's conversation names: what people wrote in it and
// in the conversation it serves, and what web_search found for it. It reads the
// messages when it is first asked. A store that is away names none.
func (a *Activities) named(ctx context.Context, t agent.Thread) func(host string) bool {
	hosts := sync.OnceValue(func() (hosts []string) {
		threads := []string{t.ID}
		if t.RootThreadID != t.ID {
			threads = append(threads, t.RootThreadID)
		}
		for _, id := range threads {
			messages, err := a.Store.Messages(ctx, id, 0, 0)
			if err != nil {
				return nil
			}
			for _, m := range messages {
				switch {
				case byPerson(m):
					hosts = append(hosts, tool.HostsIn(m.Content.String())...)
				case m.Role == agent.RoleTool && m.Name == "web_search":
					hosts = append(hosts, tool.HostsFound(m.Content.String())...)
				}
			}
		}
		return hosts
	})
	return func(host string) bool { return slices.Contains(hosts(), host) }
}

// byPerson reports whether a person wrote a message, or the answer that a tool message
// holds.
func byPerson(m agent.Message) bool {
	switch m.Role {
	case agent.RoleUser:
		return !strings.HasPrefix(m.Source, "agent:") && m.Source != agent.SourceTool
	case agent.RoleTool:
		return m.Name == agent.ToolAskUser && m.ErrorReason == "" || m.ErrorReason == agent.ErrEdited
	}
	return false
}
