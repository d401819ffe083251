package archive

import (
	"context"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

// Delete removes the session or thread that an id means, with its sub-agents.
// It returns what it removed, also when something else is at work and stays.
func Delete(ctx context.Context, s Store, o Owner, id string) (memory.DeleteResult, error) {
	out := memory.DeleteResult{Threads: []string{}}
	err := steps.Run(func() {
		roots := steps.Must(Find(ctx, s, o, id))
		if p, err := agent.ParseThreadID(id); err == nil && p.Kind == agent.KindSubAgent || agent.ThreadOfAgent(id) != "" && roots[0].SessionID != id {
			steps.Refuse(agent.CodeInvalid, "%s is a sub-agent, to which its parent refers: delete the whole tree, %s", id, roots[0].ID)
		}
		for _, root := range roots {
			res := steps.Must(s.DeleteTree(ctx, memory.DeleteRequest{UserID: o.UserID, ThreadID: root.ID}))
			out.Threads, out.Session = append(out.Threads, res.Threads...), res.Session
		}
	})
	return out, err
}

// ExpireOptions say what is old.
type ExpireOptions struct {
	// MaxAge is how long after its last activity a conversation is kept; 0 = for
	// ever.
	MaxAge  time.Duration
	Now     time.Time
	Workdir string
	// Keep are sessions or threads that stay however old they are.
	Keep []string
}

// Expire removes conversations, each with its sub-agents, in which nothing
// happened for MaxAge. What is at work, waits or was restored since stays.
func Expire(ctx context.Context, s Store, o Owner, e ExpireOptions) (memory.DeleteResult, error) {
	out := memory.DeleteResult{Threads: []string{}}
	if e.MaxAge <= 0 {
		return out, nil
	}
	before := e.Now.Add(-e.MaxAge)
	old, err := s.Threads(ctx, memory.ThreadFilter{UserID: o.UserID, Profile: o.Profile, Workdir: e.Workdir, Before: before})
	if err != nil {
		return out, err
	}
	for _, t := range old {
		if slices.Contains(e.Keep, t.ID) || slices.Contains(e.Keep, t.SessionID) {
			continue
		}
		res, err := s.DeleteTree(ctx, memory.DeleteRequest{UserID: o.UserID, ThreadID: t.ID, IdleSince: before})
		switch agent.CodeOf(err) {
		case "":
			out.Threads = append(out.Threads, res.Threads...)
		case agent.CodeConflict, agent.CodeNotFound: // at work, or gone meanwhile
		default:
			return out, err
		}
	}
	return out, nil
}
