// Package archive moves conversations between a store and the files of sessions
// (package sessionfile), both ways and whole: an export that is imported into an
// empty store gives an equal history. Files of older programs, which hold messages
// and little else, are imported too.
package archive

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// stored is what a file keeps beyond what people read.
type stored struct {
	Thread agent.Thread    `json:"thread"`
	Rows   json.RawMessage `json:"rows"`
}

// Session is the file's content of a thread.
func Session(r memory.ThreadRecord) (sessionfile.Session, error) {
	t := r.Thread
	s := sessionfile.Session{
		ID: t.SessionID, Kind: t.Kind, ThreadID: t.ID, ConversationID: t.ConversationID, Topic: t.Topic, Workdir: t.Workdir,
		StartedAt: t.CreatedAt, LastActiveAt: t.UpdatedAt, Messages: r.Messages,
		Tokens: sessionfile.Tokens{Prompt: t.PromptTokens, Completion: t.CompletionTokens, Total: t.TotalTokens},
	}
	if s.Messages == nil {
		s.Messages = []agent.Message{}
	}
	if t.Kind == agent.KindSubAgent {
		s.ID, s.ConversationID = t.AgentID, ""
		s.AgentType, s.ParentThreadID, s.RootThreadID, s.ParentToolCallID, s.Depth = t.AgentType, t.ParentThreadID, t.RootThreadID, t.ParentToolCallID, t.Depth
	}
	t.Metadata = agent.Metadata{} // it stands above and in the rows
	body, err := json.Marshal(stored{Thread: t, Rows: r.Rows})
	s.Store = body
	return s, err
}

// Bounds of one conversation of a file: each thread and image costs the store a few
// questions, all in one write.
const (
	mostThreads = 10_000
	mostImages  = 10_000
	deepest     = 100
)

// records are the threads of a tree of files, parents first.
func records(t sessionfile.Tree) ([]memory.ThreadRecord, error) {
	root := t.Session
	var out []memory.ThreadRecord
	images := 0
	for level := []branch{{tree: t, parent: root.ParentThreadID}}; len(level) > 0; {
		var below []branch
		for _, b := range level {
			r, err := record(b, root)
			if err != nil {
				return nil, err
			}
			if out = append(out, r); len(out) > mostThreads || b.depth > deepest {
				return nil, agent.Errorf(agent.CodeInvalid, "it has more than %d sub-agents, or they are nested more than %d deep", mostThreads, deepest)
			}
			if images += len(b.tree.Images()); images > mostImages {
				return nil, agent.Errorf(agent.CodeInvalid, "it refers to more than %d images", mostImages)
			}
			for _, child := range b.tree.Children {
				below = append(below, branch{tree: child, parent: r.Thread.ID, depth: r.Thread.Depth + 1})
			}
		}
		level = below
	}
	return out, nil
}

// branch is a file with where it stands.
type branch struct {
	tree   sessionfile.Tree
	parent string
	depth  int
}

// record is a file's thread: whole if it was exported from a store, else what
// messages and names tell.
func record(b branch, root sessionfile.Session) (memory.ThreadRecord, error) {
	s := b.tree.Session
	var kept stored
	if len(s.Store) > 0 && json.Unmarshal(s.Store, &kept) == nil && kept.Thread.ID != "" && len(kept.Rows) > 0 {
		if kept.Thread.ID != s.ThreadID {
			return memory.ThreadRecord{}, agent.Errorf(agent.CodeInvalid, "the file of %s holds rows of %s: leave its \"store\" out to import the messages alone", s.ThreadID, kept.Thread.ID)
		}
		return memory.ThreadRecord{Thread: kept.Thread, Messages: s.Messages, Rows: kept.Rows}, nil
	}
	t := agent.Thread{
		ID: s.ThreadID, Kind: s.Kind, SessionID: s.ID, ConversationID: s.ConversationID, RootThreadID: s.ThreadID, Workdir: s.Workdir,
		CreatedAt: s.StartedAt, UpdatedAt: s.LastActiveAt,
	}
	t.Topic, t.PromptTokens, t.CompletionTokens, t.TotalTokens = s.Topic, s.Tokens.Prompt, s.Tokens.Completion, s.Tokens.Total
	if t.Kind == agent.KindSubAgent {
		t.ID, t.AgentType, t.AgentID = subAgent(s)
		t.ParentThreadID, t.ParentToolCallID, t.Depth = b.parent, s.ParentToolCallID, b.depth
		t.RootThreadID = s.RootThreadID
		if root.Kind == agent.KindMain {
			t.RootThreadID = root.ThreadID
		}
		p, err := agent.ParseThreadID(t.RootThreadID)
		if err != nil || p.Kind != agent.KindMain || t.ParentThreadID == "" {
			return memory.ThreadRecord{}, agent.Errorf(agent.CodeInvalid, "the file of sub-agent %s does not say which conversation it belongs to: add its parentThreadId and rootThreadId", s.ID)
		}
		t.SessionID, t.ConversationID = p.SessionID, p.ConversationID
	}
	complete(&t, s.Messages)
	return memory.ThreadRecord{Thread: t, Messages: slices.Clone(s.Messages)}, nil
}

// subAgent is a sub-agent's thread; older files do not say which agent it was.
func subAgent(s sessionfile.Session) (id, agentType, agentID string) {
	id = s.ThreadID
	if id == "" {
		id = agent.ThreadOfAgent(s.ID)
	}
	if p, err := agent.ParseThreadID(id); err == nil {
		return id, p.AgentType, p.AgentID
	}
	return agent.SubThreadID("general", s.ID), "general", s.ID
}

// complete fills in times that a file does not have.
func complete(t *agent.Thread, messages []agent.Message) {
	if t.CreatedAt.IsZero() && len(messages) > 0 {
		t.CreatedAt = messages[0].Timestamp
	}
	if t.CreatedAt.IsZero() {
		t.CreatedAt = time.Unix(0, 0).UTC()
	}
	if t.UpdatedAt.Before(t.CreatedAt) {
		t.UpdatedAt = t.CreatedAt
		if len(messages) > 0 && messages[len(messages)-1].Timestamp.After(t.CreatedAt) {
			t.UpdatedAt = messages[len(messages)-1].Timestamp
		}
	}
}
