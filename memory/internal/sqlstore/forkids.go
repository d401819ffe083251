package sqlstore

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Ids of these shapes contain a hash, so that they are themselves wherever they
// stand in a text. Others are replaced only where they are a whole JSON value.
var (
	hashedTurn  = regexp.MustCompile(`^t[0-9a-f]{16}$`)
	hashedAgent = regexp.MustCompile(`-\d{13,}-[0-9a-f]{12}$`)
)

// rename gives everything that is copied an id of its own, derived as the ids of
// new things are. Texts are given the new ids too: the model finds in what it
// was told which sub-agent to resume.
func (f *fork) rename() error {
	for id := range f.turns {
		f.newTurn(id)
	}
	for _, one := range f.list {
		f.made[one.src.ID] = f.newThread(one.src.ID)
		for _, c := range one.calls {
			id := f.newCall(c.ID)
			f.made[c.ID], f.made[agent.TaskID(c.ID)], f.made[agent.ToolMessageID(c.ID)] = id, agent.TaskID(id), agent.ToolMessageID(id)
		}
		if one.src.ParentToolCallID != "" {
			f.made[one.src.ParentToolCallID] = f.newCall(one.src.ParentToolCallID)
		}
		for _, e := range one.entries {
			f.newEntryTurn(one, e)
		}
		for _, m := range one.messages {
			turn, n, ok := cutLast(m.id, ".")
			if id := f.made[turn]; ok && id != "" && !hashedTurn.MatchString(turn) {
				f.made[m.id] = id + "." + n
			}
		}
	}
	var whole, within []string
	for _, old := range slices.Sorted(maps.Keys(f.made)) {
		switch id := f.made[old]; {
		case hashedTurn.MatchString(old):
			within = append(within, old[1:], id[1:])
		case hashedAgent.MatchString(old) && !strings.ContainsAny(old, ":/"):
			within = append(within, old, id)
		}
	}
	inside := strings.NewReplacer(within...)
	root := f.list[0].src.ID
	ids := maps.Clone(f.made)
	ids["agent:"+root] = "agent:" + f.id // the source of a message
	for _, old := range slices.Sorted(maps.Keys(ids)) {
		if inside.Replace(old) == ids[old] {
			continue
		}
		from, err := encode(old)
		if err != nil {
			return err
		}
		to, err := encode(ids[old])
		if err != nil {
			return err
		}
		whole = append(whole, from, to)
	}
	f.text = strings.NewReplacer(append(whole, within...)...).Replace
	return nil
}

// newID is the id of a copied thing.
func (f *fork) newID(id string) string {
	if made, ok := f.made[id]; ok {
		return made
	}
	return f.text(id)
}

func (f *fork) newThread(id string) string {
	one := f.threads[id]
	switch {
	case one == nil:
		return id
	case one.src.Kind == agent.KindMain:
		return f.id
	case f.made[id] != "":
		return f.made[id]
	}
	created, turn := time.UnixMilli(one.src.created), ""
	if c := f.calls[one.src.ParentToolCallID]; c != nil {
		created, turn = c.CreatedAt, f.newTurn(c.TurnID)
	}
	f.made[one.src.AgentID] = agent.NewAgentID(one.src.AgentType, created, f.newThread(one.src.ParentThreadID), turn, f.newCall(one.src.ParentToolCallID))
	f.made[id] = agent.SubThreadID(one.src.AgentType, f.made[one.src.AgentID])
	return f.made[id]
}

func (f *fork) newCall(id string) string {
	c := f.calls[id]
	if c == nil {
		// Of an imported sub-agent, whose parent does not know the call.
		return agent.CallID(agent.TurnID(f.id, id, 0), 0, 0)
	}
	return agent.CallID(f.newTurn(c.TurnID), c.Step, c.Index)
}

func (f *fork) newTurn(id string) string {
	if made, ok := f.made[id]; ok {
		return made
	}
	t := f.turns[id]
	switch {
	case t == nil:
		return agent.TurnID(f.id, id, 0)
	case id == agent.TurnID(t.ThreadID, t.MessageID, t.retryNo):
		f.made[id] = agent.TurnID(f.newThread(t.ThreadID), f.newEntryID(t.EntryKind, t.MessageID), t.retryNo)
	default: // an imported one
		f.made[id] = agent.TurnID(f.newThread(t.ThreadID), id, 0)
	}
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

// newEntryTurn names the turn that an entry would have opened, had it not been
// taken into a running one: the id of its message follows from it.
func (f *fork) newEntryTurn(one *forkThread, e *entryRow) {
	if f.turns[e.TurnID] != nil || e.Kind == memory.EntryRetry || e.TurnID == "" {
		return
	}
	f.made[e.TurnID] = agent.TurnID(f.newThread(one.src.ID), f.newEntryID(e.Kind, e.ID), 0)
}

// cutLast cuts around the last separator.
func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
