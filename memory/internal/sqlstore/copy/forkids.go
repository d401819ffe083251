package copy

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Ids that a store gives to sub-agents and turns contain a hash, so that they are
// themselves wherever they stand in a text, as in the ids of calls, tasks and
// messages. Other ids are replaced only where they are a whole JSON value.
var (
	hashedAgent = regexp.MustCompile(`^[a-z0-9-]+-\d{13,}-[0-9a-f]{12}$`)
	hashedCall  = regexp.MustCompile(`^call_[0-9a-f]{16}_\d+_\d+$`)
)

// named are columns that hold no id of what a store makes.
var named = []string{"user_id", "profile", "session_id", "conversation_id", "agent_type"}

// rename gives everything that is copied an id of its own, derived as the ids of
// new things are. Texts are given the new ids too: the model finds in what it
// was told which sub-agent to resume.
func (f *fork) rename() error {
	for id := range f.turns {
		f.newTurn(id)
	}
	for _, one := range f.list {
		f.newThread(one.src.ID)
		for _, c := range one.calls {
			if !hashedCall.MatchString(c.ID) {
				id := f.newCall(c.ID)
				f.made[c.ID], f.made[agent.TaskID(c.ID)], f.made[agent.ToolMessageID(c.ID)] = id, agent.TaskID(id), agent.ToolMessageID(id)
			}
		}
		for _, e := range one.entries {
			// The turn that it would have opened, had it not been taken into a
			// running one: the id of its message follows from it.
			if f.turns[e.TurnID] == nil && e.Kind != memory.EntryRetry && e.TurnID != "" {
				f.made[e.TurnID] = agent.TurnID(f.newThread(one.src.ID), f.newEntryID(e.Kind, e.ID), 0)
			}
		}
	}
	ids := maps.Clone(f.made)
	ids["agent:"+f.list[0].src.ID] = "agent:" + f.id // the source of a message
	var whole, within []string
	for _, old := range slices.Sorted(maps.Keys(ids)) {
		switch {
		case turnForm.MatchString(old):
			within = append(within, old[1:], ids[old][1:])
		case hashedAgent.MatchString(old):
			within = append(within, old, ids[old])
		default:
			whole = append(whole, `"`+old+`"`, `"`+ids[old]+`"`)
		}
	}
	f.text = strings.NewReplacer(append(whole, within...)...).Replace
	return nil
}

// newID is what stands in a copied row instead of a text.
func (f *fork) newID(s string) string {
	if made, ok := f.made[s]; ok {
		return made
	}
	return f.text(s)
}

// renameRow puts the new ids into a row.
func (f *fork) renameRow(r row) {
	for i, c := range r.cells {
		if s, ok := c.v.(string); ok && !slices.Contains(named, r.columns[i]) {
			r.cells[i].v = f.newID(s)
		}
	}
}

func (f *fork) newThread(id string) string {
	one := f.threads[id]
	switch {
	case one == nil:
		return id
	case one.src.Kind == agent.KindMain:
		f.made[id] = f.id
	case f.made[id] == "":
		created, turn := time.UnixMilli(one.src.CreatedMs), ""
		if c := f.calls[one.src.ParentToolCallID]; c != nil {
			created, turn = c.CreatedAt, f.newTurn(c.TurnID)
		}
		made := agent.NewAgentID(one.src.AgentType, created, f.newThread(one.src.ParentThreadID), turn, f.newCall(one.src.ParentToolCallID))
		f.made[one.src.AgentID], f.made[id] = made, agent.SubThreadID(one.src.AgentType, made)
	}
	return f.made[id]
}

// newCall is the id of a call, which contains that of its turn.
func (f *fork) newCall(id string) string {
	if c := f.calls[id]; c != nil {
		return agent.CallID(f.newTurn(c.TurnID), c.Step, c.Index)
	}
	hash, rest, _ := strings.Cut(strings.TrimPrefix(id, "call_"), "_")
	return "call_" + f.newTurn("t" + hash)[1:] + "_" + rest
}

func (f *fork) newTurn(id string) string {
	if made, ok := f.made[id]; ok || id == "" {
		return made
	}
	f.made[id] = agent.TurnID(f.id, id, 0)
	return f.made[id]
}

// newEntryID is the id of an inbox entry; those that people give stay.
func (f *fork) newEntryID(kind memory.EntryKind, id string) string {
	switch {
	case kind == memory.EntryAssign:
		return f.newCall(id)
	case kind == memory.EntryChild, kind == memory.EntryRetry && f.turns[id] != nil:
		return f.newTurn(id)
	}
	return id
}
