package port

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/jsontime"
)

// StoreOptions say what of a store is seen.
type StoreOptions struct {
	UserID  string
	Profile string
	// Session, if set, bounds it to one session. Its conversations have their own
	// names as keys then ("default", "cli"), as in the session's files; otherwise
	// keys are thread ids ("s1/cli"). Sub-agents are agent:TYPE:ID in both.
	Session string
	// Owned means that Close closes the store.
	Owned bool
}

// store is the MemoryPersistence over the conversations of a store.
type store struct {
	s      memory.ConversationMemoryStore
	o      StoreOptions
	mu     sync.Mutex // writers of this process take turns
	closed bool
}

// NewStore shows the conversations of a store, which Spool's turns run on, as a
// MemoryPersistence. Items are messages; those that a retry or an edit superseded
// are left out. What turns need is kept:
//
//   - A thread that is at work, or about to be, is not changed: CodeConflict.
//   - Messages are added as closed turns, which the thread's log tells, calls
//     together with their results. A sub-agent's key is made by assign_task only.
//   - Deleting a conversation is `sessions delete`: its sub-agents go with it. A
//     sub-agent by itself is emptied and taken from lists, since its parent's log
//     refers to it.
//   - Of metadata, topic, context window and totals of tokens, requests and price
//     may be set, the totals to more only. Counts of messages and calls, time spent
//     and dates are those of the rows, superseded messages included.
func NewStore(s memory.ConversationMemoryStore, o StoreOptions) MemoryPersistence {
	return &store{s: s, o: o}
}

// tries bounds how often a unit is run again because others wrote meanwhile.
const tries = 50

// View implements MemoryPersistence.
func (s *store) View(ctx context.Context, f func(Records) error) error {
	return s.again(ctx, func(r *reading) error {
		if err := f(&unit{base: r, readOnly: true}); err != nil {
			return err
		}
		return steps.Run(func() { // what was read is to be so still
			now := &reading{store: r.store, ctx: r.ctx, seen: map[string]int64{}}
			now.mark(slices.Collect(maps.Keys(r.seen)))
			if !maps.Equal(now.seen, r.seen) {
				steps.Check(memory.Stale("conversations were changed meanwhile"))
			}
		})
	})
}

// Update implements MemoryPersistence.
func (s *store) Update(ctx context.Context, f func(Records) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again(ctx, func(r *reading) error {
		u := &unit{base: r}
		if err := f(u); err != nil || !u.changed() {
			return err
		}
		edits, err := steps.Get(func() []memory.ThreadEdit { return r.edits(u) })
		if err != nil {
			return err
		}
		return s.s.EditThreads(ctx, memory.EditRequest{UserID: s.o.UserID, Profile: s.o.Profile, Seen: r.seen, Edits: edits})
	})
}

// Close implements MemoryPersistence.
func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.o.Owned {
		return nil
	}
	s.closed = true
	return s.s.Close()
}

// again runs a unit until nobody wrote in between.
func (s *store) again(ctx context.Context, f func(*reading) error) error {
	if err := ctx.Err(); err != nil {
		return agent.Wrap(err, agent.CodeUnavailable, "memory: the caller gave up; nothing was changed")
	}
	for n := range tries {
		err := f(&reading{ctx: ctx, store: s, found: map[string]*agent.Thread{}, seen: map[string]int64{}})
		if !errors.Is(err, memory.ErrStale) {
			return err
		}
		time.Sleep(rand.N(time.Duration(n+1) * time.Millisecond))
	}
	return agent.Errorf(agent.CodeConflict, "memory: its conversations change all the time: try again when less is at work, or name a session; nothing was changed")
}

// reading is the base of a unit: what it has read of the store, and when.
type reading struct {
	*store
	ctx   context.Context
	found map[string]*agent.Thread // nil = not there
	seen  map[string]int64         // last event
}

func (r *reading) checksIDs() bool { return true }

// mark notes where threads stand, before they are read.
func (r *reading) mark(ids []string) {
	for _, id := range ids {
		r.seen[id] = -1
	}
	for _, m := range steps.Must(r.s.Mark(r.ctx, ids)) {
		r.seen[m.ThreadID] = m.LastEvent
	}
}

// id is the thread of a key; name the reverse.
func (r *reading) id(key string) string {
	if r.o.Session == "" || strings.HasPrefix(key, agentPrefix) {
		return key
	}
	return agent.MainThreadID(r.o.Session, key)
}

func (r *reading) name(t *agent.Thread) string {
	if r.o.Session == "" || t.Kind == agent.KindSubAgent {
		return t.ID
	}
	return t.ConversationID
}

func (r *reading) sees(t agent.Thread) bool {
	return (r.o.Session == "" || t.SessionID == r.o.Session) && memory.InProfile(t.Profile, r.o.Profile)
}

// thread returns the thread of a key, nil if there is none.
func (r *reading) thread(key string) *agent.Thread {
	id := r.id(key)
	if t, ok := r.found[id]; ok {
		return t
	}
	if _, err := agent.ParseThreadID(id); err != nil {
		return nil // a key that is no thread's id has nothing
	}
	r.mark([]string{id})
	t, there := steps.Found(r.s.Thread(r.ctx, r.o.UserID, id))
	switch {
	case !there:
		if r.found[id] = nil; r.seen[id] >= 0 { // somebody else's
			delete(r.seen, id)
		}
	case r.sees(t):
		r.found[id] = &t
	}
	return r.found[id]
}

// threads lists all that is seen.
func (r *reading) threads() (all []agent.Thread) {
	for _, sub := range []bool{false, true} {
		found := steps.Must(r.s.Threads(r.ctx, memory.ThreadFilter{UserID: r.o.UserID, SessionID: r.o.Session, SubAgents: sub}))
		all = append(all, slices.DeleteFunc(found, func(t agent.Thread) bool { return !r.sees(t) })...)
	}
	return all
}

func (r *reading) keys() (keys []string) {
	var ids []string
	for _, t := range r.threads() {
		ids = append(ids, t.ID)
	}
	r.mark(ids)
	all := r.threads() // as they are since the marks
	for i, t := range all {
		if _, marked := r.seen[t.ID]; !marked {
			steps.Check(memory.Stale("conversation %s is new", t.ID))
		}
		r.found[t.ID] = &all[i]
		if keys = append(keys, MetadataKey(r.name(&t))); t.MessageCount > 0 {
			keys = append(keys, r.name(&t))
		}
	}
	return keys
}

func (r *reading) list(key string) (out []Record) {
	conversation, isMetadata := strings.CutPrefix(key, metadataPrefix)
	t := r.thread(conversation)
	if t == nil {
		return nil
	}
	if isMetadata {
		if r.len(conversation) == 0 && t.MessageCount > 0 {
			return nil // a sub-agent that was deleted
		}
		return []Record{{Body: steps.Must(compact(ConversationMetadata{Metadata: t.Metadata, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt}))}}
	}
	for _, m := range steps.Must(r.s.Messages(r.ctx, t.ID, 0, 0)) {
		if m.SupersededBy != "" {
			continue
		}
		// Where it stands in the thread is no part of what was said.
		m.ID = memory.OriginalID(m.ID)
		body := steps.Must(compact(struct {
			agent.Message
			TurnID string `json:"turnId,omitempty"`
			Seq    int64  `json:"seq,omitempty"`
		}{Message: m}))
		out = append(out, Record{ID: m.ID, Body: body})
	}
	return out
}

// len of a conversation is what its thread counts; only of a sub-agent, which may
// have been emptied, are the messages read.
func (r *reading) len(key string) int {
	t := r.thread(strings.TrimPrefix(key, metadataPrefix))
	if t == nil {
		return 0
	}
	if t.Kind == agent.KindSubAgent || strings.HasPrefix(key, metadataPrefix) {
		return len(r.list(key))
	}
	return int(t.MessageCount)
}

func (r *reading) edits(u *unit) (out []memory.ThreadEdit) {
	byID := map[string]*memory.ThreadEdit{}
	edit := func(key string) *memory.ThreadEdit {
		id := r.id(strings.TrimPrefix(key, metadataPrefix))
		if byID[id] == nil {
			byID[id] = &memory.ThreadEdit{ThreadID: id}
		}
		return byID[id]
	}
	if u.cleared {
		for _, key := range r.keys() {
			edit(key).Delete = true
		}
	}
	var orphans []string
	for _, key := range slices.Sorted(maps.Keys(u.changes)) {
		c, e := u.changes[key], edit(key)
		switch {
		case !strings.HasPrefix(key, metadataPrefix):
			if e.Delete = len(c.list) == 0; e.Delete {
				continue
			}
			e.Replace = !c.added
			for i, one := range c.list {
				var m agent.Message
				steps.Check(agent.Wrap(jsontime.Unmarshal(one.Body, &m), agent.CodeInvalid, "memory key %q: item %d is not a message; nothing was changed", key, i+1))
				e.Messages = append(e.Messages, m)
			}
		case len(c.list) == 0:
			orphans = append(orphans, key)
		default:
			var m ConversationMetadata
			steps.Check(agent.Wrap(jsontime.Unmarshal(c.list[len(c.list)-1].Body, &m), agent.CodeInvalid, "memory key %q does not hold metadata; nothing was changed", key))
			e.Metadata = &m.Metadata
		}
	}
	for _, key := range orphans {
		if !edit(key).Delete {
			steps.Refuse(agent.CodeInvalid, "memory key %q goes with its conversation: delete that; nothing was changed", key)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		out = append(out, *byID[id])
	}
	return out
}
